package budget

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Runs returns how many runs a search makes that makes n by default: at least one.
func Runs(n uint64) uint64 { return max(1, n/divisor) }

// Count is Runs for a search whose number an environment variable may give.
func Count(t *testing.T, variable string, n uint64) uint64 {
	t.Helper()
	return FromEnv(t, variable, Runs(n))
}

// FromEnv returns the number that an environment variable has, or another one if it isn't set.
func FromEnv(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, variable)
	return n
}
