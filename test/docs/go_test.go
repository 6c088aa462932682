package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const self = "github.com/roperator/roperator"

// packages are what fragments may use without importing it.
var packages = map[string]string{
	"config": self + "/config", "handler": self + "/handler", "failable": self + "/handler/failable", "readiness": self + "/handler/readiness", "recorder": self + "/handler/recorder",
	"resource": self + "/resource", "k8s": self + "/resource/k8s", "runner": self + "/runner", "testkit": self + "/testkit",
	"context": "context", "errors": "errors", "fmt": "fmt", "slog": "log/slog", "http": "net/http", "io": "io", "os": "os", "slices": "slices", "sync": "sync",
	"strings": "strings", "testing": "testing", "time": "time",
	"require":        "github.com/stretchr/testify/require",
	"prometheus":     "github.com/prometheus/client_golang/prometheus",
	"appsv1":         "k8s.io/api/apps/v1",
	"batchv1":        "k8s.io/api/batch/v1",
	"corev1":         "k8s.io/api/core/v1",
	"metav1":         "k8s.io/apimachinery/pkg/apis/meta/v1",
	"meta":           "k8s.io/apimachinery/pkg/api/meta",
	"apierrors":      "k8s.io/apimachinery/pkg/api/errors",
	"types":          "k8s.io/apimachinery/pkg/types",
	"runtime":        "k8s.io/apimachinery/pkg/runtime",
	"rest":           "k8s.io/client-go/rest",
	"kubernetes":     "k8s.io/client-go/kubernetes",
	"flag":           "flag",
	"applyappsv1":    "k8s.io/client-go/applyconfigurations/apps/v1",
	"applycorev1":    "k8s.io/client-go/applyconfigurations/core/v1",
	"applymetav1":    "k8s.io/client-go/applyconfigurations/meta/v1",
	"ctrl":           "sigs.k8s.io/controller-runtime",
	"client":         "sigs.k8s.io/controller-runtime/pkg/client",
	"controllerutil": "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil",
	"reconcile":      "sigs.k8s.io/controller-runtime/pkg/reconcile",
	"ctrlhandler":    "sigs.k8s.io/controller-runtime/pkg/handler", // handler is this library's
}

// heads are the functions that statements can be put in.
var heads = map[string]string{
	"":          "func _()",
	"sync":      "func _(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error)",
	"finalize":  "func _(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error)",
	"test":      "func _(t *testing.T)",
	"reconcile": "func _(ctx context.Context, req ctrl.Request) (ctrl.Result, error)",
}

// fragment makes files of a block that has no package clause: the block itself
// and what of the page's prelude it doesn't declare.
func fragment(b *block) (map[string]string, error) {
	body := b.text
	parsed, err := parse(body)
	if err != nil {
		head, ok := heads[b.in]
		if !ok {
			return nil, fmt.Errorf("%s: in=%s is unknown", b, b.in)
		}
		if strings.HasSuffix(head, "error)") && !strings.Contains("\n"+body, "\nreturn ") {
			body += "panic(0)\n" // it goes on elsewhere
		}
		body = head + " {\n" + body + "}\n"
		if parsed, err = parse(body); err != nil {
			return nil, fmt.Errorf("%s: neither declarations nor statements: %w", b, err)
		}
	}
	files := map[string]string{"fragment.go": withImports(parsed, body)}
	if b.page.prelude == "" {
		return files, nil
	}
	prelude, err := parse(b.page.prelude)
	if err != nil {
		return nil, fmt.Errorf("%s: prelude: %w", b.page.path, err)
	}
	declared := names(parsed)
	prelude.Decls = slices.DeleteFunc(prelude.Decls, func(d ast.Decl) bool {
		return slices.ContainsFunc(names(&ast.File{Decls: []ast.Decl{d}}), func(name string) bool { return slices.Contains(declared, name) })
	})
	var text strings.Builder
	for _, d := range prelude.Decls {
		var printed bytes.Buffer
		if err := format.Node(&printed, token.NewFileSet(), d); err != nil {
			return nil, fmt.Errorf("%s: prelude: %w", b.page.path, err)
		}
		text.WriteString(printed.String() + "\n\n")
	}
	if prelude, err = parse(text.String()); err != nil {
		return nil, fmt.Errorf("%s: prelude: %w", b.page.path, err)
	}
	files["prelude.go"] = withImports(prelude, text.String())
	return files, nil
}

func parse(declarations string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", "package fragment; "+declarations, 0)
}

// names returns what a file declares, "Type.Method" for methods.
func names(f *ast.File) (out []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				out = append(out, d.Name.Name)
			} else if t, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
				out = append(out, t.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					out = append(out, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						out = append(out, n.Name)
					}
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "_" })
}

// withImports returns the declarations as a file.
func withImports(f *ast.File, declarations string) string {
	var imports []string
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name, ok := s.X.(*ast.Ident)
		if !ok || !slices.Contains(f.Unresolved, name) || packages[name.Name] == "" {
			return true
		}
		if line := fmt.Sprintf("import %s %q\n", name.Name, packages[name.Name]); !slices.Contains(imports, line) {
			imports = append(imports, line)
		}
		return true
	})
	slices.Sort(imports)
	return "package fragment\n\n" + strings.Join(imports, "") + declarations
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// assemble writes every program and fragment into one module, which is built
// against this repository, and returns its folder.
func assemble(t *testing.T, all []*page) string {
	t.Helper()
	module := t.TempDir()
	write := func(dir, name, text string) {
		path := filepath.Join(module, dir, name)
		require.NoFileExists(t, path, "two blocks are the same file")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, p := range all {
		for _, b := range p.blocks {
			switch {
			case b.notRun != "" || b.is != "":
			case b.file != "":
				write(b.dir, b.file, b.text)
			case b.lang != "go":
			case strings.HasPrefix(b.text, "package ") || strings.HasPrefix(b.text, "//") && strings.Contains(b.text, "\npackage "):
				write(fmt.Sprintf("%s-%d", unfit.ReplaceAllString(strings.ToLower(p.path), "-"), b.line), "main.go", b.text)
			default:
				files, err := fragment(b)
				require.NoError(t, err)
				for name, text := range files {
					write(fmt.Sprintf("%s-%d", unfit.ReplaceAllString(strings.ToLower(p.path), "-"), b.line), name, text)
				}
			}
		}
	}
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	text := strings.Replace(string(mod), "module "+self, "module example.com/docs", 1)
	write("", "go.mod", text+fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", self, self, repository))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	write("", "go.sum", string(sum))
	return module
}

// goCommand is the go tool in the module. What the pages need and this
// repository doesn't is downloaded.
func goCommand(t *testing.T, module string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestGoCompiles(t *testing.T) {
	module := assemble(t, pages(t))
	output, err := goCommand(t, module, "vet", "./...")
	require.NoError(t, err, "%s", output)
	known, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	needed, err := os.ReadFile(filepath.Join(module, "go.sum"))
	require.NoError(t, err)
	require.Equal(t, string(known), string(needed), "a page uses a module of which go.sum says nothing")
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "go" && b.notRun == "" && (b.file != "" || b.is != "") {
				formatted, err := format.Source([]byte(b.text))
				require.NoError(t, err, "%s", b)
				require.Equal(t, string(formatted), b.text, "%s isn't as gofmt has it", b)
			}
		}
	}
}

// TestDiffs compiles programs as the diffs of their pages leave them.
func TestDiffs(t *testing.T) {
	all := pages(t)
	module := assemble(t, all)
	diffs := blocks(all, "diff")
	require.NotEmpty(t, diffs)
	for _, b := range diffs {
		dir := filepath.Join(module, b.dir)
		cmd := exec.CommandContext(t.Context(), "git", "apply", b.file)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: git apply: %s", b, output)
		text, err := goCommand(t, module, "vet", "./"+b.dir)
		require.NoError(t, err, "%s: %s", b, text)
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			code, err := os.ReadFile(file)
			require.NoError(t, err)
			formatted, err := format.Source(code)
			require.NoError(t, err, "%s", b)
			require.Equal(t, string(formatted), string(code), "%s isn't as gofmt has it, after %s", filepath.Base(file), b)
		}
	}
}

// TestGettingStartedIsShort counts the Go that a reader has to type.
func TestGettingStartedIsShort(t *testing.T) {
	lines := 0
	for _, b := range blocks(pages(t), "go") {
		if b.dir == "getting-started" {
			lines += strings.Count(b.text, "\n")
		}
	}
	require.NotZero(t, lines)
	require.Less(t, lines, 120)
}

func TestGoThatDoesNotCompile(t *testing.T) {
	cases := map[string]struct{ reason, markdown, want string }{
		"Name":     {"A name that doesn't exist.", "```go\nvar _ = config.Operater{}\n```", "undefined: config.Operater"},
		"Prelude":  {"What the prelude declares has a type.", "<!-- go:\nvar x int\n-->\n```go\nvar _ string = x\n```", "cannot use x"},
		"Body":     {"Statements return what the function does.", "```go in=sync\nreturn 1, nil\n```", "cannot use 1"},
		"Assembly": {"Files of a folder are one program.", "```go file=a.go dir=a\npackage main\n\nfunc main() { run() }\n```", "undefined: run"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := parsePage("a.md", tc.markdown)
			require.NoError(t, err)
			output, err := goCommand(t, assemble(t, []*page{p}), "vet", "./...")
			require.Error(t, err, tc.reason)
			require.Contains(t, output, tc.want, tc.reason)
		})
	}
}

func TestFragmentRefuses(t *testing.T) {
	p, err := parsePage("a.md", "```go\nx := := 1\n```\n```go in=nowhere\nx()\n```")
	require.NoError(t, err)
	_, err = fragment(p.blocks[0])
	require.ErrorContains(t, err, "a.md:1: neither declarations nor statements")
	_, err = fragment(p.blocks[1])
	require.ErrorContains(t, err, "a.md:4: in=nowhere is unknown")
}
