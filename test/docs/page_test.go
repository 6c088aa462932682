package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.." // of the repository

// A page is a Markdown file.
type page struct {
	path    string // from the repository's root
	prelude string // Go that its fragments take for granted
	blocks  []*block
	links   []link
}

// A block is what stands between two fences.
type block struct {
	page   *page
	line   int // of its first fence
	lang   string
	file   string
	dir    string
	in     string
	is     string // the file that it repeats
	notRun string // why it isn't run
	text   string
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page.path, b.line) }

type link struct {
	line   int
	target string
}

var (
	attribute = regexp.MustCompile(`^(file|dir|in)=(\S+)$`)
	comment   = regexp.MustCompile(`^<!-- (is|not run:) (.+) -->$`)
	linked    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan  = regexp.MustCompile("`[^`]*`") // in which nothing is a link
)

// parsePage reads Markdown. What is wrong with its blocks is an error.
func parsePage(path, markdown string) (*page, error) {
	p := &page{path: path}
	var current *block
	hidden, before := false, ""
	for i, line := range strings.Split(markdown, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case current != nil && trimmed == "```":
			current = nil
		case current != nil:
			current.text += line + "\n"
		case hidden && trimmed == "-->":
			hidden = false
		case hidden:
			p.prelude += line + "\n"
		case trimmed == "<!-- go:":
			hidden = true
		case strings.HasPrefix(trimmed, "```"):
			var err error
			if current, err = openBlock(p, i+1, strings.TrimPrefix(trimmed, "```"), before); err != nil {
				return nil, err
			}
			p.blocks = append(p.blocks, current)
		default:
			for _, m := range linked.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
				p.links = append(p.links, link{i + 1, m[1]})
			}
		}
		before = trimmed
	}
	if current != nil {
		return nil, fmt.Errorf("%s: the block has no end", current)
	}
	if hidden {
		return nil, fmt.Errorf("%s: the comment <!-- go: has no end", path)
	}
	return p, nil
}

func openBlock(p *page, line int, info, before string) (*block, error) {
	b := &block{page: p, line: line}
	fields := strings.Fields(info)
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s: the block has no language", b)
	}
	b.lang = fields[0]
	for _, field := range fields[1:] {
		m := attribute.FindStringSubmatch(field)
		if m == nil {
			return nil, fmt.Errorf("%s: attribute %q is unknown", b, field)
		}
		switch m[1] {
		case "file":
			b.file = m[2]
		case "dir":
			b.dir = m[2]
		case "in":
			b.in = m[2]
		}
	}
	if typed := b.lang == "console" || b.lang == "sh"; b.file != "" && (typed || b.dir == "") || b.file == "" && b.dir != "" && !typed {
		return nil, fmt.Errorf("%s: a file is in a dir, and commands have a dir only", b)
	}
	if m := comment.FindStringSubmatch(before); m != nil && m[1] == "is" {
		b.is = m[2]
	} else if m != nil {
		b.notRun = m[2]
	}
	if b.lang == "diff" && b.file == "" && b.notRun == "" {
		return nil, fmt.Errorf("%s: a diff is a file that the page applies", b)
	}
	known := []string{"go", "yaml", "json", "console", "sh", "diff", "text"}
	if b.notRun == "" && !slices.Contains(known, b.lang) {
		return nil, fmt.Errorf("%s: language %q is none of %q; say why it isn't run", b, b.lang, known)
	}
	return b, nil
}

// pages returns all of them, in the order of their paths.
func pages(t *testing.T) []*page {
	t.Helper()
	paths := []string{"README.md"}
	examples, err := filepath.Glob(filepath.Join(root, "examples/*/README.md"))
	require.NoError(t, err)
	for _, example := range examples {
		path, err := filepath.Rel(root, example)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			path, err = filepath.Rel(root, path)
			paths = append(paths, path)
		}
		return err
	}))
	require.Greater(t, len(paths), 5, "a README, the docs, the examples")
	out := make([]*page, 0, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		p, err := parsePage(filepath.ToSlash(path), string(data))
		require.NoError(t, err)
		out = append(out, p)
	}
	return out
}

// blocks returns those of a language that are run, with their pages' others.
func blocks(all []*page, lang string) (found []*block) {
	for _, p := range all {
		for _, b := range p.blocks {
			if b.lang == lang && b.notRun == "" && b.is == "" {
				found = append(found, b)
			}
		}
	}
	return found
}

func TestParsePage(t *testing.T) {
	p, err := parsePage("a.md", strings.Join([]string{
		"# A", "<!-- go:", "var x int", "-->", "see [`b`](b.md#c), not `b[d](e)`", "", "<!-- is d/e.go -->", "```go", "package e", "```",
		"<!-- not run: it is Rust -->", "```rust", "fn main() {}", "```", "```yaml file=f.yaml dir=g", "a: [b](c)", "```",
	}, "\n"))
	require.NoError(t, err)
	require.Equal(t, "var x int\n", p.prelude)
	require.Equal(t, []link{{5, "b.md#c"}}, p.links)
	require.Equal(t, []*block{
		{page: p, line: 8, lang: "go", is: "d/e.go", text: "package e\n"},
		{page: p, line: 12, lang: "rust", notRun: "it is Rust", text: "fn main() {}\n"},
		{page: p, line: 15, lang: "yaml", file: "f.yaml", dir: "g", text: "a: [b](c)\n"},
	}, p.blocks)
}

func TestParsePageRefuses(t *testing.T) {
	cases := map[string]struct{ reason, markdown, want string }{
		"NoLanguage":      {"Nobody could tell what to do with it.", "```\na\n```", "a.md:1: the block has no language"},
		"UnknownLanguage": {"Nor here, unless it says why it is only shown.", "text\n```rust\na\n```", `a.md:2: language "rust" is none of`},
		"NoReason":        {"A reason has words.", "<!-- not run: -->\n```rust\n```", `a.md:2: language "rust" is none of`},
		"Attribute":       {"A typo must not go unnoticed.", "```go fiel=main.go\n```", `a.md:1: attribute "fiel=main.go" is unknown`},
		"FileOnly":        {"A file is in a folder.", "```go file=main.go\n```", "a.md:1: a file is in a dir"},
		"DirOnly":         {"The program would lack a file.", "```go dir=a\n```", "a.md:1: a file is in a dir"},
		"Diff":            {"Nobody would find out whether it can be applied.", "```diff\n+a\n```", "a.md:1: a diff is a file that the page applies"},
		"NoEnd":           {"The rest of the page would be code.", "```go\na", "a.md:1: the block has no end"},
		"NoEndOfPrelude":  {"The rest of the page would be hidden.", "<!-- go:\nvar x int", "a.md: the comment <!-- go: has no end"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parsePage("a.md", tc.markdown)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestLinks(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.links {
			target, anchor, _ := strings.Cut(l.target, "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := filepath.Join(root, filepath.Dir(p.path), target)
			if target == "" {
				path = filepath.Join(root, p.path)
			}
			_, err := os.Stat(path)
			require.NoError(t, err, "%s:%d: link to %s", p.path, l.line, l.target)
			if anchor == "" {
				continue
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, anchors(string(data)), anchor, "%s:%d: link to %s", p.path, l.line, l.target)
		}
	}
}

var (
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	unanchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the names by which headings can be linked to.
func anchors(markdown string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(markdown, -1) {
		out = append(out, strings.ReplaceAll(unanchored.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

func TestAnchors(t *testing.T) {
	require.Equal(t, []string{"a-b", "what-it-doesnt-see"}, anchors("# A: b\ntext # no\n## What it doesn't see\n"))
}

func TestRepeatedFiles(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.is == "" {
				continue
			}
			path, declarations, part := strings.Cut(b.is, "#")
			data, err := os.ReadFile(filepath.Join(root, path))
			require.NoError(t, err, "%s", b)
			text := string(data)
			if part {
				text, err = partOf(path, text, strings.Split(declarations, ","))
				require.NoError(t, err, "%s", b)
			}
			require.Equal(t, text, b.text, "%s isn't %s", b, b.is)
		}
	}
}

// partOf returns the top-level declarations of these names, each as it stands in a Go
// file with its comment, with an empty line between them.
func partOf(path, source string, wanted []string) (string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	texts := make([]string, 0, len(wanted))
	for _, name := range wanted {
		i := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
			return slices.Contains(names(&ast.File{Decls: []ast.Decl{d}}), name)
		})
		if i < 0 {
			return "", fmt.Errorf("%s declares no %s", path, name)
		}
		from := file.Decls[i].Pos()
		if doc := docOf(file.Decls[i]); doc != nil {
			from = doc.Pos()
		}
		texts = append(texts, source[fset.Position(from).Offset:fset.Position(file.Decls[i].End()).Offset]+"\n")
	}
	return strings.Join(texts, "\n"), nil
}

// docOf returns the comment of a declaration.
func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

func TestPartOf(t *testing.T) {
	source := "// Package a is one.\npackage a\n\n// b is two.\nvar b = 2\n\nfunc c() {\n\treturn // at once\n}\n\ntype d struct{}\n"
	for name, tc := range map[string]struct {
		reason string
		wanted []string
		text   string
		err    string
	}{
		"Comment":  {"A declaration comes with what is said of it.", []string{"b"}, "// b is two.\nvar b = 2\n", ""},
		"Two":      {"In the order in which they are wanted.", []string{"c", "b"}, "func c() {\n\treturn // at once\n}\n\n// b is two.\nvar b = 2\n", ""},
		"NotThere": {"A name that was changed mustn't go unnoticed.", []string{"b", "e"}, "", "a.go declares no e"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := partOf("a.go", source, tc.wanted)
			if tc.err != "" {
				require.EqualError(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.text, text, tc.reason)
		})
	}
}
