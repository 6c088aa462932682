package sim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// number of seeds in `go test`.
const fewSeeds = 60

// TestSeeds runs SIM_SEEDS seeds from SIM_FIRST on.
func TestSeeds(t *testing.T) {
	seeds, first := rig.FromEnv(t, "SIM_SEEDS", fewSeeds), rig.FromEnv(t, "SIM_FIRST", 1)
	met, violations := map[string]int{}, 0
	var mu sync.Mutex // guards both
	faults.Seeds(t, first, seeds, func(t *testing.T, seed uint64) bool {
		r := play(t, writeScript(seed), newDice(seed))
		r.tell(t)
		mu.Lock()
		defer mu.Unlock()
		for kind, n := range r.faults {
			met[kind] += n
		}
		violations += len(r.Violations())
		return false
	})
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(met)) {
		fmt.Printf("sim: %6d %s\n", met[kind], kind)
		sum += met[kind]
	}
	fmt.Printf("sim: seeds=%d faults=%d violations=%d\n", seeds, sum, violations)
	if seeds < fewSeeds {
		return // are too few to meet everything
	}
	for _, kind := range kindsOfFaults() {
		require.Positive(t, met[kind], "no seed has met: %s", kind)
	}
}

// TestScript plays the script in the file SIM_SCRIPT, SIM_TIMES times, and then
// looks for a shorter one that fails too.
func TestScript(t *testing.T) {
	file := os.Getenv("SIM_SCRIPT")
	if file == "" {
		t.Skip("SIM_SCRIPT names no script")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := parseScript(string(text))
	require.NoError(t, err)
	times := int(rig.FromEnv(t, "SIM_TIMES", 100))
	for range times {
		r := play(t, s, played(s))
		if len(r.Violations()) == 0 {
			continue
		}
		if os.Getenv("SIM_SHRINK") != "" {
			r = shrink(t, r)
		}
		r.tell(t)
		return
	}
}

// play makes one run in a bubble of its own.
func play(t *testing.T, s *script, d *dice) *report {
	var r *report
	synctest.Test(t, func(*testing.T) { r = run(s, d) })
	return r
}

func (r *report) tell(t *testing.T) {
	if len(r.Violations()) > 0 {
		r.Tell(t, r.script, "SIM_SCRIPT=file go test -run TestScript ./test/sim")
	}
}

// shrink leaves out what a failure doesn't need.
func shrink(t *testing.T, failed *report) *report {
	lines := failed.script.lines()
	faults.Reduce(len(lines), func(from, to int) bool {
		fewer := faults.Without(lines, from, to)
		s, err := parseScript(failed.script.head() + "\n" + strings.Join(fewer, "\n"))
		require.NoError(t, err)
		for range 4 {
			if r := play(t, s, played(s)); len(r.Violations()) > 0 {
				failed, lines = r, fewer
				failed.script = s
				return true
			}
		}
		return false
	})
	return failed
}
