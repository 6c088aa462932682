package sim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// number of seeds in `go test`.
const fewSeeds = 60

// TestSeeds runs SIM_SEEDS seeds from SIM_FIRST on.
func TestSeeds(t *testing.T) {
	seeds, first := rig.FromEnv(t, "SIM_SEEDS", fewSeeds), rig.FromEnv(t, "SIM_FIRST", 1)
	met := map[string]int{}
	var mu sync.Mutex // guards met
	var violations atomic.Int64
	t.Run("all", func(t *testing.T) {
		for seed := first; seed < first+seeds; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				r := play(t, writeScript(seed), newFaults(seed, nil))
				mu.Lock()
				for kind, n := range r.faults {
					met[kind] += n
				}
				mu.Unlock()
				violations.Add(int64(len(r.violations)))
				r.tell(t)
			})
		}
	})
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(met)) {
		fmt.Printf("sim: %6d %s\n", met[kind], kind)
		sum += met[kind]
	}
	fmt.Printf("sim: seeds=%d faults=%d violations=%d\n", seeds, sum, violations.Load())
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
		r := play(t, s, newFaults(0, s))
		if len(r.violations) == 0 {
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
func play(t *testing.T, s *script, f *faults) *report {
	var r *report
	synctest.Test(t, func(*testing.T) { r = run(s, f) })
	return r
}

func (r *report) tell(t *testing.T) {
	if len(r.violations) == 0 {
		return
	}
	t.Errorf("%d violations:\n%s\n\nthe script, to be played by SIM_SCRIPT=file go test -run TestScript ./test/sim:\n%s\nwhat happened:\n%s\nlogs:\n%s",
		len(r.violations), strings.Join(r.violations, "\n"), r.script, strings.Join(r.history, "\n"), r.logs)
}

// shrink leaves out what a failure doesn't need.
func shrink(t *testing.T, failed *report) *report {
	lines := failed.script.lines()
	for size := len(lines) / 2; size > 0; size /= 2 {
		for from := 0; from < len(lines); {
			fewer := slices.Concat(lines[:from], lines[min(from+size, len(lines)):])
			s, err := parseScript(failed.script.head() + "\n" + strings.Join(fewer, "\n"))
			require.NoError(t, err)
			r := play(t, s, newFaults(0, s))
			for again := 0; again < 3 && len(r.violations) == 0; again++ {
				r = play(t, s, newFaults(0, s))
			}
			if len(r.violations) > 0 {
				failed, lines = r, fewer
				failed.script = s
			} else {
				from += size
			}
		}
	}
	return failed
}
