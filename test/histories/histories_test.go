package histories

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// few is the number of histories in `go test`.
const few = 600

// TestHistories plays STRESS_COUNT histories, from seed STRESS_FIRST on.
func TestHistories(t *testing.T) {
	count, first := rig.FromEnv(t, "STRESS_COUNT", few), rig.FromEnv(t, "STRESS_FIRST", 1)
	if testing.Short() {
		count = min(count, few/10)
	}
	begin := time.Now()
	var next, failed atomic.Uint64
	t.Run("all", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1); n <= count && failed.Load() == 0; n = next.Add(1) {
					if r := inBubble(t, write(first+n-1), false); len(r.violations) > 0 {
						failed.Add(1)
						shortest(t, r).tell(t)
					}
				}
			})
		}
	})
	took := time.Since(begin)
	fmt.Printf("histories: %d of %d from seed %d on, %.0f a minute, %d failed\n",
		min(next.Load(), count), count, first, float64(min(next.Load(), count))/took.Minutes(), failed.Load())
}

// TestScript plays the script in the file STRESS_SCRIPT, as a failure prints it,
// STRESS_TIMES times, and ends with the first failure. Whatever is due at the same moment
// comes in another order each time.
func TestScript(t *testing.T) {
	file := os.Getenv("STRESS_SCRIPT")
	if file == "" {
		t.Skip("STRESS_SCRIPT isn't set")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := parseScript(string(text))
	require.NoError(t, err)
	for range rig.FromEnv(t, "STRESS_TIMES", 100) {
		if r := inBubble(t, s, true); len(r.violations) > 0 {
			r.tell(t)
			return
		}
	}
}

// A script is read as it is printed.
func TestScript_IsReadAsPrinted(t *testing.T) {
	for seed := range uint64(50) {
		written := write(seed)
		read, err := parseScript(written.String())
		require.NoError(t, err)
		require.Equal(t, written.String(), read.String())
	}
}

// inBubble lets a script happen in a bubble of its own.
func inBubble(t *testing.T, s *script, verbose bool) *report {
	t.Helper()
	var r *report
	synctest.Test(t, func(*testing.T) { r = play(s, verbose) })
	return r
}

// shortest looks for a history with fewer steps that fails too.
func shortest(t *testing.T, failed *report) *report {
	t.Helper()
	for shorter := true; shorter; {
		shorter = false
		for i := range slices.Backward(failed.script.steps) {
			s := *failed.script
			s.steps = slices.Delete(slices.Clone(s.steps), i, i+1)
			for range 3 {
				if r := inBubble(t, &s, true); len(r.violations) > 0 {
					failed, shorter = r, true
					break
				}
			}
		}
	}
	return failed
}

func (r *report) tell(t *testing.T) {
	t.Helper()
	t.Errorf("%d violations:\n%s\n\nthe script:\n%s\n\nwhat happened:\n%s\n\nlogs:\n%s",
		len(r.violations), strings.Join(r.violations, "\n"), r.script, strings.Join(r.history, "\n"), r.logs)
}
