// Package suite holds the Makefile's lists of packages to the code: which packages need a
// control plane, and which of them run on the shared one.
package suite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// lists returns the packages that each of these variables of a Makefile names.
func lists(t *testing.T, makefile string, variables ...string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, name := range variables {
		found := regexp.MustCompile(`(?m)^` + name + ` :=((?:.*\\\n)*.*)$`).FindStringSubmatch(makefile)
		require.NotNil(t, found, "the Makefile has no list %s", name)
		out[name] = strings.Fields(strings.ReplaceAll(found[1], "\\\n", " "))
	}
	return out
}

// problems returns what is wrong with the lists: needs tells for each package of the module
// that has tests whether it starts a control plane.
func problems(lists map[string][]string, needs map[string]bool) []string {
	var out []string
	listed := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		for _, pkg := range lists[name] {
			switch _, exists := needs[pkg]; {
			case !exists:
				out = append(out, name+" names "+pkg+", which has no tests")
			case listed[pkg] != "":
				out = append(out, pkg+" is in "+listed[pkg]+" and in "+name)
			}
			listed[pkg] = name
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(needs)) {
		switch in := listed[pkg]; {
		case needs[pkg] && in == "":
			out = append(out, pkg+" starts a control plane, and is in none of the lists")
		case !needs[pkg] && (in == "SHARED" || in == "SERIAL" || in == "OWN"):
			out = append(out, pkg+" starts no control plane, and is in "+in)
		}
	}
	return out
}

// TestLists fails if a package with a control plane would run beside another one.
func TestLists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	needs := starters(t)
	require.True(t, needs["./test/conformance"] && needs["./testkit"], "what starts control planes is found")
	require.Greater(t, len(needs), 60)
	require.Empty(t, problems(lists(t, string(text), "SHARED", "SERIAL", "OWN", "SLOW", "GATES"), needs))
}

func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		makefile string
		want     []string
	}{
		"Right":    {"SLOW may have packages of both kinds", "SHARED := ./a \\\n\t./b\nOWN := ./c\nSLOW := ./d", nil},
		"Unlisted": {"it would run beside others", "SHARED := ./a\nOWN := ./c\nSLOW :=", []string{"./b starts a control plane, and is in none of the lists"}},
		"Twice":    {"it would run twice", "SHARED := ./a ./b ./c\nOWN := ./c\nSLOW :=", []string{"./c is in OWN and in SHARED"}},
		"Gone":     {"a package that was renamed", "SHARED := ./a ./b ./x\nOWN := ./c\nSLOW :=", []string{"SHARED names ./x, which has no tests"}},
		"Needless": {"it could run beside others", "SHARED := ./a ./b ./d\nOWN := ./c\nSLOW :=", []string{"./d starts no control plane, and is in SHARED"}},
	} {
		t.Run(name, func(t *testing.T) {
			needs := map[string]bool{"./a": true, "./b": true, "./c": true, "./d": false}
			require.Equal(t, tc.want, problems(lists(t, tc.makefile, "SHARED", "OWN", "SLOW"), needs), tc.reason)
		})
	}
}

// starters tells for each package of the module that has tests whether these start a
// control plane.
func starters(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && isOtherModule(path):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := "./" + filepath.ToSlash(dir)
		out[pkg] = out[pkg] || starts(file)
		return nil
	}))
	return out
}

// isOtherModule reports whether a folder isn't part of this module.
func isOtherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || strings.HasPrefix(filepath.Base(dir), ".") || filepath.Base(dir) == "testdata"
}

// starts reports whether a file calls one of the functions that start a control plane.
func starts(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := fun.X.(*ast.Ident); ok {
				name = pkg.Name + "." + fun.Sel.Name
			}
		case *ast.Ident:
			name = file.Name.Name + "." + fun.Name
		}
		found = found || slices.Contains([]string{"testkit.Start", "testkit.Main", "plane.New", "kubelettest.RunTests"}, name)
		return true
	})
	return found
}
