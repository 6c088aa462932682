package budget

import (
	"os"
	"testing"
)

// allVariable is set by `make test-all`.
const allVariable = "ROPERATOR_TEST_ALL"

// Slow skips a test that only `make test-all` runs, since it starts a control plane of its own, or
// loads the shared one, and a change seldom breaks what it tests. With ROPERATOR_TEST_ALL=1 nothing is skipped.
func Slow(t *testing.T) {
	t.Helper()
	if os.Getenv(allVariable) == "" {
		t.Skip("make test-all runs it, as does " + allVariable + "=1")
	}
}
