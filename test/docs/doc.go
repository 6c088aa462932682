// Package docs holds the documentation to what it says: the tests read every
// fenced block of README.md, docs/ and examples/*/README.md, and compile, apply
// or run it.
//
// What the word after the three backquotes stands for:
//
//	go       a file that begins with its package clause, or a fragment: declarations
//	         or statements. What a fragment needs is imported; what it takes for
//	         granted is declared in the page's comment <!-- go: … -->
//	yaml     objects, which an API server must accept as they are (strictly, by dry
//	         run), custom ones by the CustomResourceDefinitions of the docs and the
//	         examples; or other YAML, which must parse
//	json     must parse
//	console  "$ command" and what it prints, where … is anything and spacing, ages
//	         and times don't count. Commands that look (kubectl get, cat, grep) are
//	         repeated until it is right. All of a page are one session of bash, with
//	         KUBECONFIG and kubectl, in the folder of the page's files or the one
//	         that dir=NAME says
//	sh       commands, a line each, that must succeed, in the same session
//	diff     a file by which a page changes files of its program: "git apply" takes
//	         each in the order of the page, and the program is compiled then, too
//	text     anything
//
// Attributes follow that word: file=NAME and dir=NAME put the block into a file
// of a program, in which pages with the same dir take part; in=sync makes
// statements the body of a handler's function instead of one without arguments.
//
// A comment on the line before the block changes what is done:
//
//	<!-- is PATH -->         the block is that file, word for word
//	<!-- is PATH#a,b -->     it is these declarations of a Go file
//	<!-- not run: REASON --> the block is only shown; any language will do
//
// The sessions of examples/*/README.md are run by the examples' own tests.
package docs
