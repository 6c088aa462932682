package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// A goPackage is what the go command tells of a package.
type goPackage struct {
	ImportPath string
	Name       string
	Export     string // a file
	Module     *struct {
		Path string
		Main bool
	}
}

// public says whether programs outside of the module import the package.
func (p *goPackage) public() bool {
	if p.Module == nil || !p.Module.Main || p.Name == "main" {
		return false
	}
	folder, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), "/")
	return !slices.Contains([]string{"internal", "hack", "test", "examples"}, folder)
}

// list returns the lines of the listing, sorted.
func list(root string) ([]string, error) {
	packages, err := load(root)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, p := range packages {
		files[p.ImportPath] = p.Export
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })
	var lines []string
	for _, p := range packages {
		if !p.public() {
			continue
		}
		imported, err := from.Import(p.ImportPath)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		l := lister{of: imported, prefix: strings.TrimPrefix(p.ImportPath, p.Module.Path+"/") + ": "}
		lines = append(lines, l.list()...)
	}
	if len(lines) == 0 {
		return nil, errors.New("no public package: name the module's folder by -root")
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

// load compiles the module's packages; what they depend on comes with them.
func load(root string) ([]*goPackage, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Name,Export,Module", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var packages []*goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		p := &goPackage{}
		if err := dec.Decode(p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// A lister lists one package.
type lister struct {
	of     *types.Package
	prefix string
	lines  []string
}

func (l *lister) list() []string {
	for _, name := range l.of.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := l.of.Scope().Lookup(name).(type) {
		case *types.Const:
			l.add("const %s %s = %s", name, l.text(o.Type()), o.Val())
		case *types.Var:
			l.add("var %s %s", name, l.text(o.Type()))
		case *types.Func:
			l.add("func %s%s", name, l.signature(o.Signature()))
		case *types.TypeName:
			l.typeName(o)
		}
	}
	return l.lines
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, l.prefix+fmt.Sprintf(format, args...))
}

func (l *lister) typeName(o *types.TypeName) {
	named, ok := o.Type().(*types.Named)
	if !ok || o.IsAlias() {
		l.add("type %s = %s", o.Name(), l.text(types.Unalias(o.Type())))
		return
	}
	what := "type " + o.Name() + l.parameters(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		l.add("%s struct", what)
		for field := range under.Fields() {
			if field.Embedded() && field.Exported() {
				l.add("%s struct, embedded %s", what, l.text(field.Type()))
			} else if field.Exported() {
				l.add("%s struct, %s %s", what, field.Name(), l.text(field.Type()))
			}
		}
	case *types.Interface:
		l.add("%s interface", what)
		for method := range under.Methods() {
			if method.Exported() {
				l.add("%s interface, %s%s", what, method.Name(), l.signature(method.Signature()))
			} else {
				l.add("%s interface, with methods that aren't exported", what)
			}
		}
		return
	default:
		l.add("%s %s", what, l.text(under))
	}
	// What a pointer has includes what a value has, and what is embedded.
	ofValue, ofPointer := types.NewMethodSet(named), types.NewMethodSet(types.NewPointer(named))
	for m := range ofPointer.Methods() {
		method, ok := m.Obj().(*types.Func)
		if !ok || !method.Exported() {
			continue
		}
		receiver := "*" + o.Name()
		if ofValue.Lookup(method.Pkg(), method.Name()) != nil {
			receiver = o.Name()
		}
		signature, ok := m.Type().(*types.Signature)
		if ok {
			l.add("method (%s) %s%s", receiver, method.Name(), l.signature(signature))
		}
	}
}

// text returns a type as it is written in its package.
func (l *lister) text(t types.Type) string {
	if f, ok := t.(*types.Signature); ok {
		return "func" + l.signature(f)
	}
	return types.TypeString(t, func(p *types.Package) string {
		if p == l.of {
			return ""
		}
		if p.Name() == "v1" { // which one
			return path.Base(path.Dir(p.Path())) + "/v1"
		}
		return p.Name()
	})
}

// signature leaves out the names of parameters, which nobody depends on.
func (l *lister) signature(f *types.Signature) string {
	results := l.tuple(f.Results(), false)
	switch {
	case f.Results().Len() == 0:
		results = ""
	case f.Results().Len() == 1:
		results = " " + results
	default:
		results = " (" + results + ")"
	}
	return l.parameters(f.TypeParams()) + "(" + l.tuple(f.Params(), f.Variadic()) + ")" + results
}

func (l *lister) tuple(vars *types.Tuple, variadic bool) string {
	var out []string
	for i := range vars.Len() {
		t := vars.At(i).Type()
		if slice, ok := t.(*types.Slice); ok && variadic && i == vars.Len()-1 {
			out = append(out, "..."+l.text(slice.Elem()))
			continue
		}
		out = append(out, l.text(t))
	}
	return strings.Join(out, ", ")
}

func (l *lister) parameters(list *types.TypeParamList) string {
	var out []string
	for p := range list.TypeParams() {
		out = append(out, p.Obj().Name()+" "+l.text(p.Constraint()))
	}
	if len(out) == 0 {
		return ""
	}
	return "[" + strings.Join(out, ", ") + "]"
}
