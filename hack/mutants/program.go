package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// All mutants are compiled into one program, so that each test binary is built only
// once. Of every function that a mutant changes, the program has the function as it is
// (name_mutant0) and a copy with the change (name_mutant1 and so on). In the place of
// the function stands one that calls either of them, by the name of the mutant in an
// environment variable.

const (
	// chosenBy is the environment variable that has the name of a mutant when the
	// tests run. Without it, the engine is whole.
	chosenBy = "ROPERATOR_MUTANT"
	// switchFile is the file that each changed package gets beside its own.
	switchFile = "zz_mutant.go"
)

// writeProgram writes the files of the program with these mutants into a directory. It
// returns the list of them that go build wants.
func writeProgram(dir string, list []mutant) (overlay string, err error) {
	texts, err := program(list)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for i, file := range slices.Sorted(maps.Keys(texts)) {
		path, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(replace[path], []byte(texts[file]), 0o600); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
}

// program returns the text of each file that the program has otherwise than the
// engine.
func program(list []mutant) (map[string]string, error) {
	files := map[string]*source{} // file -> as it is
	for _, m := range list {
		for file, edits := range m.byFile() {
			if files[file] == nil {
				s, err := parsed(file, "")
				if err != nil {
					return nil, err
				}
				files[file] = s
			}
			if err := files[file].mutate(m.name, edits); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	texts := map[string]string{}
	for file, s := range files {
		texts[file] = s.switched()
		texts[filepath.Join(filepath.Dir(file), switchFile)] = fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutantChosen = os.Getenv(%q)\n", s.tree.Name.Name, chosenBy)
	}
	return texts, nil
}

// A source is a file of the engine, and the copies of its functions that mutants have
// changed.
type source struct {
	path, text string
	tree       *ast.File
	pos        *token.FileSet
	copies     map[string][]changed // function, as idOf says -> its copies
}

// A changed is the text of a function as one mutant has it.
type changed struct{ mutant, text string }

// parsed parses a file. text is what to parse instead of the file's own text, unless it
// is empty.
func parsed(path, text string) (*source, error) {
	if text == "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	s := &source{path: path, text: text, pos: token.NewFileSet(), copies: map[string][]changed{}}
	var err error
	s.tree, err = parser.ParseFile(s.pos, path, text, parser.SkipObjectResolution)
	return s, err
}

// at returns the text of a part of the file.
func (s *source) at(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

func (s *source) offset(p token.Pos) int { return s.pos.Position(p).Offset }

// functions returns the functions of the file, by idOf.
func (s *source) functions() map[string]*ast.FuncDecl {
	out := map[string]*ast.FuncDecl{}
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			out[s.idOf(f)] = f
		}
	}
	return out
}

// idOf returns the name of a function, with its receiver if it has one.
func (s *source) idOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return s.at(f.Recv.List[0].Type) + "." + f.Name.Name
}

// mutate keeps the copies of the functions that the edits of a mutant change.
func (s *source) mutate(name string, edits []edit) error {
	text := s.text
	ids := map[string]bool{}
	for _, e := range edits {
		if n := strings.Count(text, e.old); n != 1 {
			return fmt.Errorf("%s has %q %d times, not once; change the mutant with the code", s.path, e.old, n)
		}
		begin := strings.Index(s.text, e.old)
		around := ""
		for id, f := range s.functions() {
			if f.Body != nil && s.offset(f.Body.Pos()) < begin && begin+len(e.old) <= s.offset(f.End()) {
				around = id
			}
		}
		if around == "" {
			return fmt.Errorf("%s: %q isn't within one function", s.path, e.old)
		}
		ids[around] = true
		text = strings.Replace(text, e.old, e.new, 1)
	}
	mutated, err := parsed(s.path, text)
	if err != nil {
		return err
	}
	for id := range ids {
		f := mutated.functions()[id]
		if f == nil {
			return fmt.Errorf("%s: %s is gone", s.path, id)
		}
		s.copies[id] = append(s.copies[id], changed{name, mutated.renamed(f, len(s.copies[id])+1)})
	}
	return nil
}

// renamed returns the text of a function with the name of its n-th copy.
func (s *source) renamed(f *ast.FuncDecl, n int) string {
	return s.text[s.offset(f.Pos()):s.offset(f.Name.Pos())] + copyName(f, n) + s.text[s.offset(f.Name.End()):s.offset(f.End())]
}

// copyName returns the name of the n-th copy of a function.
func copyName(f *ast.FuncDecl, n int) string { return fmt.Sprint(f.Name.Name, "_mutant", n) }

// switched returns the text of the file with all copies, and with the functions that
// choose one of them.
func (s *source) switched() string {
	text, added := s.text, ""
	functions := s.functions()
	ids := slices.SortedFunc(maps.Keys(s.copies), func(a, b string) int { return int(functions[b].Pos() - functions[a].Pos()) })
	for _, id := range ids { // the last one of the file first, so that offsets hold
		f := functions[id]
		text = text[:s.offset(f.Name.Pos())] + copyName(f, 0) + text[s.offset(f.Name.End()):]
		added += "\n" + s.chooser(f, s.copies[id])
		for _, c := range s.copies[id] {
			added += "\n" + c.text + "\n"
		}
	}
	return text + added
}

// chooser returns the text of the function that stands in the place of f, and calls it
// or one of its copies.
func (s *source) chooser(f *ast.FuncDecl, copies []changed) string {
	var params, args, results []string
	for _, p := range f.Type.Params.List {
		for range max(1, len(p.Names)) {
			name := fmt.Sprint("a", len(params))
			params = append(params, name+" "+s.at(p.Type))
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	if f.Type.Results != nil {
		for _, r := range f.Type.Results.List {
			for range max(1, len(r.Names)) {
				results = append(results, s.at(r.Type))
			}
		}
	}
	receiver, on, types, typeArgs := "", "", "", ""
	if f.Recv != nil {
		receiver, on = "(on "+s.at(f.Recv.List[0].Type)+") ", "on."
	}
	if f.Type.TypeParams != nil {
		var names []string
		for _, p := range f.Type.TypeParams.List {
			for _, n := range p.Names {
				names = append(names, n.Name)
			}
		}
		types, typeArgs = s.at(f.Type.TypeParams), "["+strings.Join(names, ", ")+"]"
	}
	call := func(n int) string {
		text := on + copyName(f, n) + typeArgs + "(" + strings.Join(args, ", ") + ")"
		if len(results) > 0 {
			return "return " + text
		}
		return text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s%s(%s) (%s) {\n\tswitch mutantChosen {\n", receiver, f.Name.Name, types, strings.Join(params, ", "), strings.Join(results, ", "))
	for i, c := range copies {
		fmt.Fprintf(&b, "\tcase %q:\n\t\t%s\n", c.mutant, call(i+1))
	}
	fmt.Fprintf(&b, "\tdefault:\n\t\t%s\n\t}\n}\n", call(0))
	return b.String()
}
