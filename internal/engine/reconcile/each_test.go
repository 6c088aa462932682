package reconcile

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEach_Panic: a goroutine that panics ends neither the process nor the others.
func TestEach_Panic(t *testing.T) {
	e, _ := settledEngine(t, 0, 0)
	broken := errors.New("broken")
	out, errs := each(e, 4, func(i int) (string, error) {
		switch i {
		case 1:
			return "failed", broken
		case 2:
			panic(broken)
		}
		return "done", nil
	})
	require.Equal(t, []string{"done", "failed", "", "done"}, out)
	require.NoError(t, errors.Join(errs[0], errs[3]))
	require.Equal(t, broken, errs[1])
	require.EqualError(t, errs[2], "panic: broken")
}
