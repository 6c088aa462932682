package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The mutants follow the code: each finds what it changes.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutants() {
		_, err := m.overlay(t.TempDir())
		require.NoError(t, err, m.name)
	}
	require.GreaterOrEqual(t, len(mutants()), 10)
}
