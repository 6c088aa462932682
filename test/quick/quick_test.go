// Package quick has the list of the scenarios that `make test-quick` runs. go test
// ignores a name in -run that no test has, so a test looks for each of them.
package quick

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScenariosExist(t *testing.T) {
	file, err := os.Open("scenarios.txt")
	require.NoError(t, err)
	defer file.Close()
	tests, listed := conformanceTests(t), map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		name, tells, found := strings.Cut(lines.Text(), ": ")
		require.True(t, found && tells != "", "%q: must be a test, a colon, and what it tells", lines.Text())
		require.True(t, tests[name], "test/conformance has no %s", name)
		require.False(t, listed[name], "%s is listed twice", name)
		listed[name] = true
	}
	require.NoError(t, lines.Err())
	require.Len(t, listed, 20, "the number that `make help` states")
}

// conformanceTests returns the names of the functions in the test files of the conformance suite.
func conformanceTests(t *testing.T) map[string]bool {
	files, err := filepath.Glob("../conformance/*_test.go")
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}
