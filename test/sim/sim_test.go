package sim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// number of seeds in `go test`.
const fewSeeds = 60

// few is the number of dense seeds in `go test`.
const few = 300

// TestSeeds plays SIM_SEEDS sparse seeds from SIM_FIRST on. A failure ends it.
func TestSeeds(t *testing.T) {
	seeds, first := budget.Count(t, "SIM_SEEDS", fewSeeds), budget.FromEnv(t, "SIM_FIRST", 1)
	met, violations := map[string]int{}, 0
	var mu sync.Mutex // guards both
	played := faults.Seeds(t, first, seeds, func(t *testing.T, seed uint64) bool {
		r := play(t, sparseScript(seed), newDice(seed), false)
		r.tell(t)
		mu.Lock()
		defer mu.Unlock()
		for kind, n := range r.faults {
			met[kind] += n
		}
		violations += len(r.Violations())
		return r.failed()
	})
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(met)) {
		fmt.Printf("sim: %6d %s\n", met[kind], kind)
		sum += met[kind]
	}
	fmt.Printf("sim: seeds=%d faults=%d violations=%d\n", played, sum, violations)
	if played < fewSeeds {
		return // are too few to meet everything
	}
	for _, kind := range kindsOfFaults() {
		require.Positive(t, met[kind], "no seed has met: %s", kind)
	}
}

// TestHistories plays STRESS_COUNT dense seeds from STRESS_FIRST on. A failure ends it, and is made shorter.
func TestHistories(t *testing.T) {
	count, first := budget.Count(t, "STRESS_COUNT", few), budget.FromEnv(t, "STRESS_FIRST", 1)
	if testing.Short() {
		count = min(count, few/10)
	}
	begin, ended, overtaken := time.Now(), atomic.Int64{}, atomic.Int64{}
	played := faults.Seeds(t, first, count, func(t *testing.T, seed uint64) bool {
		s := denseScript(seed)
		r := play(t, s, played(s), false)
		ended.Add(int64(r.faults[sawRestore]))
		overtaken.Add(int64(r.faults[sawOvertaken]))
		if r.failed() {
			shrink(t, r).tell(t)
		}
		return r.failed()
	})
	fmt.Printf("histories: %d processes ended by a restore, %d overtaken\n", ended.Load(), overtaken.Load())
	fmt.Printf("histories: %d of %d from seed %d on, %.0f a minute\n", played, count, first, float64(played)/time.Since(begin).Minutes())
}

// TestScript plays the script in the file SIM_SCRIPT, as a failure prints it, SIM_TIMES times, until it
// fails. With SIM_SHRINK it then looks for a shorter one that fails too.
func TestScript(t *testing.T) {
	file := os.Getenv("SIM_SCRIPT")
	if file == "" {
		t.Skip("SIM_SCRIPT names no script")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := parseScript(string(text))
	require.NoError(t, err)
	for range budget.FromEnv(t, "SIM_TIMES", 100) {
		r := play(t, s, played(s), true)
		if !r.failed() {
			continue
		}
		if os.Getenv("SIM_SHRINK") != "" {
			r = shrink(t, r)
		}
		r.tell(t)
		return
	}
}

// A script is read as it is printed.
func TestScript_IsReadAsPrinted(t *testing.T) {
	for name, write := range map[string]func(uint64) *script{"Sparse": sparseScript, "Dense": denseScript} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				written := write(seed)
				read, err := parseScript(written.String())
				require.NoError(t, err)
				require.Equal(t, written.String(), read.String())
			}
		})
	}
}

// play plays a script in a bubble of its own.
func play(t *testing.T, s *script, d *dice, verbose bool) *report {
	t.Helper()
	var r *report
	synctest.Test(t, func(*testing.T) { r = run(s, d, verbose) })
	return r
}

func (r *report) tell(t *testing.T) {
	t.Helper()
	if r.failed() {
		r.Tell(t, r.script, "SIM_SCRIPT=file go test -run TestScript ./test/sim")
	}
}

// shrink leaves out what a failure doesn't need.
func shrink(t *testing.T, failed *report) *report {
	t.Helper()
	lines := failed.script.lines()
	faults.Reduce(len(lines), func(from, to int) bool {
		fewer := faults.Without(lines, from, to)
		s, err := parseScript(failed.script.head() + "\n" + strings.Join(fewer, "\n"))
		require.NoError(t, err)
		for range 4 {
			if r := play(t, s, played(s), true); r.failed() {
				failed, lines = r, fewer
				failed.script = s
				return true
			}
		}
		return false
	})
	return failed
}
