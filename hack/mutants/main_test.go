package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEdits holds that each edit replaces text that occurs exactly once, and that the result is
// Go code: `make mutants`, which compiles and runs the mutants, takes minutes.
func TestEdits(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, m := range mutants() {
		require.False(t, names[m.name], "%s: two mutants have this name", m.name)
		names[m.name] = true
		texts, err := program([]mutant{m})
		require.NoError(t, err)
		for file, text := range texts {
			_, err := parsed(file, text)
			require.NoError(t, err, m.name)
		}
	}
	require.NotEmpty(t, names)
}
