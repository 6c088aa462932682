package budget

import (
	"os"
	"testing"
)

// allVariable is set by `make test-all`.
const allVariable = "ROPERATOR_TEST_ALL"

// All says whether `make test-all` runs the test.
func All() bool { return os.Getenv(allVariable) != "" }

// Slow skips a test that only `make test-all` runs, since it starts a control plane of its own, or
// loads the shared one, and a change seldom breaks what it tests. With ROPERATOR_TEST_ALL=1 nothing is skipped.
func Slow(t *testing.T) {
	t.Helper()
	if !All() {
		t.Skip("make test-all runs it, as does " + allVariable + "=1")
	}
}
