package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The mutants follow the code: each finds what it changes.
func TestMutantsApply(t *testing.T) {
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
	require.GreaterOrEqual(t, len(names), 60)
}
