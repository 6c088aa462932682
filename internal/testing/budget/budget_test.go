package budget_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
)

func TestCount(t *testing.T) {
	const variable = "ROPERATOR_BUDGET_TEST"
	tenth := uint64(1)
	if budget.Runs(100) != 100 {
		tenth = 10
	}
	for name, tc := range map[string]struct {
		reason string
		env    string
		n      uint64
		want   uint64
	}{
		"Default": {"nothing is given", "", 60, 60 / tenth},
		"Few":     {"every search makes at least one run", "", 3, max(1, 3/tenth)},
		"Given":   {"a given number isn't scaled", "17", 60, 17},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(variable, tc.env)
			require.Equal(t, tc.want, budget.Count(t, variable, tc.n), tc.reason)
		})
	}
	require.Empty(t, os.Getenv(variable))
	require.EqualValues(t, 5, budget.FromEnv(t, variable, 5))
}
