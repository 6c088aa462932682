package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuick finds that there is every scenario of the list: go test says nothing of a name in
// -run that is no test's.
func TestQuick(t *testing.T) {
	files, err := filepath.Glob("../../test/conformance/*_test.go")
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
	seen := map[string]bool{}
	pattern := regexp.MustCompile(quickPattern())
	for _, s := range quick() {
		require.True(t, tests[s.test], "test/conformance has no %s", s.test)
		require.False(t, seen[s.test], "%s is there twice", s.test)
		require.NotEmpty(t, s.reason, s.test)
		require.Regexp(t, pattern, s.test)
		seen[s.test] = true
	}
	const wanted = 20
	require.Len(t, seen, wanted, "as `make help` says")
	require.NotRegexp(t, pattern, "TestC10_ServerDefaultedFieldsAndMore")
}
