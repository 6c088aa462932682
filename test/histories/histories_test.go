package histories

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/faults"
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
	played := faults.Seeds(t, first, count, func(t *testing.T, seed uint64) bool {
		r := inBubble(t, write(seed), false)
		if r.failed() {
			shortest(t, r).tell(t)
		}
		return r.failed()
	})
	took := time.Since(begin)
	fmt.Printf("histories: %d of %d from seed %d on, %.0f a minute\n", played, count, first, float64(played)/took.Minutes())
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
		if r := inBubble(t, s, true); r.failed() {
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
	for before := -1; before != len(failed.script.steps); {
		before = len(failed.script.steps)
		faults.Reduce(before, func(from, to int) bool {
			s := *failed.script
			s.steps = faults.Without(s.steps, from, to)
			for range 3 {
				if r := inBubble(t, &s, true); r.failed() {
					failed = r
					return true
				}
			}
			return false
		})
	}
	return failed
}

func (r *report) tell(t *testing.T) {
	t.Helper()
	r.Tell(t, r.script, "STRESS_SCRIPT=file go test -run TestScript ./test/histories")
}
