package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/testing/gate"
)

// A state is what was counted of a module.
type state struct {
	lines   map[string]int // by the folder of a package
	structs []structure
}

// A structure is a struct type.
type structure struct {
	name          string // folder.Type, or folder.Type.field for a struct within a struct
	fields, bools int
}

// measure counts the product's code below a folder.
func measure(root string) (gate.Table, error) {
	s := &state{lines: map[string]int{}}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && skipped(root, name):
			return filepath.SkipDir
		case entry.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return s.add(name, file)
	})
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	return s.table(), nil
}

// skipped says whether a folder has no code of the product.
func skipped(root, name string) bool {
	switch name {
	case ".":
		return false
	case "test", "hack", "examples", "internal/testing":
		return true
	}
	if base := path.Base(name); base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name), "go.mod"))
	return err == nil // a module of its own
}

// add counts a file.
func (s *state) add(name, file string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	folder := path.Dir(name)
	s.lines[folder] += codeLines(source)
	ast.Inspect(parsed, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if t, ok := spec.Type.(*ast.StructType); ok {
				s.addStruct(folder+"."+spec.Name.Name, t)
			}
		}
		return true
	})
	return nil
}

// addStruct counts a struct, and those that are types of its fields, each by itself.
func (s *state) addStruct(name string, t *ast.StructType) {
	counted := structure{name: name}
	for _, field := range t.Fields.List {
		n := max(1, len(field.Names)) // an embedded field has no name
		counted.fields += n
		if isBool(field.Type) {
			counted.bools += n
		}
		if inner, ok := field.Type.(*ast.StructType); ok {
			s.addStruct(name+"."+field.Names[0].Name, inner)
		}
	}
	s.structs = append(s.structs, counted)
}

// isBool says whether a field is a bool or an atomic.Bool.
func isBool(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name == "bool"
	case *ast.SelectorExpr:
		of, ok := t.X.(*ast.Ident)
		return ok && of.Name == "atomic" && t.Sel.Name == "Bool"
	}
	return false
}

// codeLines counts the lines that have a token other than a comment.
func codeLines(source []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]struct{}{}
	for {
		pos, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return len(lines)
		case tok == token.SEMICOLON && literal == "\n":
			continue // it isn't in the source
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			lines[first+i] = struct{}{}
		}
	}
}

// table returns the figures in the order in which the table has them: lines by package, then structs by size.
func (s *state) table() gate.Table {
	sum := 0
	for folder, n := range s.lines {
		if folder == core || strings.HasPrefix(folder, core+"/") {
			sum += n
		}
	}
	t := gate.Table{{Name: linesOfCore, Value: float64(sum)}}
	for _, folder := range slices.Sorted(maps.Keys(s.lines)) {
		t = append(t, gate.Figure{Name: "lines " + folder, Value: float64(s.lines[folder])})
	}
	slices.SortFunc(s.structs, func(a, b structure) int { return cmp.Or(b.fields-a.fields, cmp.Compare(a.name, b.name)) })
	for _, of := range s.structs {
		if of.fields >= large {
			t = append(t, gate.Figure{Name: "fields " + of.name, Value: float64(of.fields)}, gate.Figure{Name: "booleans " + of.name, Value: float64(of.bools)})
		}
	}
	return t
}
