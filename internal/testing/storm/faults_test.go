package storm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/faults"
)

func allClasses() []class { return []class{reads, trials, writes, frames, calls, external} }

// meets returns which outcomes a class meets under some seeds, beside delays, and the longest delay.
func meets(kinds Kinds, c class) (outcomes []string, longest time.Duration) {
	found := map[string]bool{}
	for seed := range uint64(60) {
		d := newDice(seed, kinds, 1)
		for i := range 100 {
			f := d.next(fmt.Sprint("thing ", i), c)
			longest = max(longest, f.Delay)
			if f.Outcome != "" && f.Outcome != faults.Late {
				found[f.Outcome] = true
			}
		}
	}
	for outcome := range found {
		outcomes = append(outcomes, outcome)
	}
	return outcomes, longest
}

func TestEachKindHasItsOwnFaults(t *testing.T) {
	kills := []string{faults.KillBefore, faults.KillAfter}
	errs := []string{"429", "503", "504", faults.BreakBefore, faults.BreakAfter, faults.CutAnswer, faults.TimeAfter}
	more := append(slices.Clone(errs), "500", faults.FailAfter)
	for name, tc := range map[string]struct {
		reason string
		kinds  Kinds
		want   map[class][]string
		late   bool
	}{
		"None":      {"no kinds, no fault", Kinds{}, nil, false},
		"Kill":      {"processes die at what has an effect", Kinds{Kill: true}, map[class][]string{writes: kills, calls: kills, external: kills}, false},
		"Lag":       {"all may be late, and watches end", Kinds{Lag: true}, map[class][]string{frames: {faults.End, faults.Half, faults.Gone, faults.Hang}}, true},
		"Errors":    {"requests fail", Kinds{Errors: true}, map[class][]string{reads: more, trials: errs, writes: more}, false},
		"Conflicts": {"only writes conflict", Kinds{Conflicts: true}, map[class][]string{writes: {"409"}}, false},
		"External":  {"only calls of outside systems fail", Kinds{External: true}, map[class][]string{external: {faults.BreakBefore, faults.BreakAfter, faults.Twice}}, false},
		"Scripted":  {"these are no faults of requests", Kinds{Leader: true, Others: true, Late: true}, nil, false},
		"All": {
			"a class has those of all kinds", All(), map[class][]string{
				reads: more, trials: errs, writes: slices.Concat(more, kills, []string{"409"}), frames: {faults.End, faults.Half, faults.Gone, faults.Hang},
				calls: kills, external: append([]string{faults.BreakBefore, faults.BreakAfter, faults.Twice}, kills...),
			}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range allClasses() {
				outcomes, longest := meets(tc.kinds, c)
				require.ElementsMatch(t, tc.want[c], outcomes, "%s: class %d", tc.reason, c)
				if tc.late {
					require.Greater(t, longest, time.Second, "%s: class %d", tc.reason, c)
					require.Less(t, longest, 20*time.Second, "class %d", c)
				} else {
					require.Zero(t, longest, "%s: class %d", tc.reason, c)
				}
			}
		})
	}
}

func TestWriteHasOnlyItsKinds(t *testing.T) {
	others := []string{"delete-child", "tamper-child", "touch-parent", "change-related", "replace-related"}
	for name, tc := range map[string]struct {
		reason    string
		kinds     Kinds
		externals bool
		want      []string
		replicas  int // the most
	}{
		"None":       {"no kinds, no acts", Kinds{}, true, nil, 1},
		"Kill":       {"processes end", Kinds{Kill: true}, true, []string{"kill", "stop"}, 1},
		"Lag":        {"watches end", Kinds{Lag: true}, true, []string{"compact", "break-watches", "bookmark"}, 1},
		"Errors":     {"the server is away", Kinds{Errors: true}, true, []string{"outage"}, 1},
		"Leader":     {"two processes have a lease", Kinds{Leader: true}, true, []string{"cut-lease", "stop"}, 2},
		"Others":     {"others write", Kinds{Others: true}, true, others, 1},
		"External":   {"outside systems are silent", Kinds{External: true}, true, []string{"silence"}, 1},
		"NoExternal": {"there is none that could be", Kinds{External: true}, false, nil, 1},
		"Requests":   {"these are no acts", Kinds{Conflicts: true, Late: true}, true, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			found, replicas := map[string]bool{}, 0
			for seed := range uint64(300) {
				s := write(seed, tc.kinds, []int{-1, 3, -1}, tc.externals)
				replicas = max(replicas, s.Replicas)
				for _, a := range s.Acts {
					require.False(t, a.Verb == "cut-lease" && s.Replicas == 1, "a process alone has no lease")
					found[a.Verb] = true
				}
			}
			var verbs []string
			for verb := range found {
				verbs = append(verbs, verb)
			}
			require.ElementsMatch(t, tc.want, verbs, tc.reason)
			require.Equal(t, tc.replicas, replicas, tc.reason)
		})
	}
}

func TestWrite(t *testing.T) {
	late, lasting := []int{-1, 4, -1, 5, -1}, []string{"outage", "silence", "cut-lease"}
	acts, gaps := map[int]bool{}, map[time.Duration]bool{}
	for seed := range uint64(200) {
		s := write(seed, All(), late, true)
		require.Equal(t, s, write(seed, All(), late, true), "seed %d: it decides all", seed)
		require.Len(t, s.Gaps, len(late), "each step has a gap before it")
		require.Len(t, s.Order, len(late), "each step is taken")
		require.Empty(t, s.Faults, "faults are drawn when they are met")
		end := 10 * time.Second
		for _, gap := range s.Gaps {
			require.GreaterOrEqual(t, gap, time.Duration(0))
			gaps[gap] = true
			end += gap
		}
		byTime := func(a, b act) int { return int(a.At - b.At) }
		require.True(t, slices.IsSortedFunc(s.Acts, byTime), "seed %d: they happen one after the other", seed)
		for _, a := range s.Acts {
			require.GreaterOrEqual(t, a.At, time.Duration(0))
			require.Less(t, a.At, end, "seed %d: soon after the last step nothing more happens", seed)
			require.Equal(t, slices.Contains(lasting, a.Verb), a.For > 0, "seed %d: %s", seed, a.Verb)
		}
		acts[len(s.Acts)] = true
	}
	require.Equal(t, map[int]bool{0: true, 1: true, 2: true, 4: true, 8: true}, acts, "some have many, some have none")
	require.Greater(t, len(gaps), 100, "steps come at different times")
	require.True(t, gaps[0], "and some at once")
	require.NotEqual(t, write(1, All(), late, true), write(2, All(), late, true), "another seed writes another script")
}

func TestWriteKeepsOrder(t *testing.T) {
	kinds := All()
	kinds.Late = false
	for seed := range uint64(50) {
		require.Equal(t, []int{0, 1, 2, 3}, write(seed, kinds, []int{4, 4, -1, 4}, false).Order, "only Late puts steps off")
	}
	require.Empty(t, write(1, Kinds{Late: true}, nil, false).Order, "without steps there is nothing to put off")
}

func TestDelayed(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		late   []int
		never  bool // there is nothing that may be put off
	}{
		"None":      {"no steps", nil, true},
		"Fixed":     {"none may be late", []int{-1, -1, -1}, true},
		"Alone":     {"there is nothing to be later than", []int{1}, true},
		"NoRoom":    {"the next step needs it", []int{1, -1, -1}, true},
		"Unbounded": {"to the end", []int{4, -1, -1, -1}, false},
		"Bounded":   {"before what needs it", []int{3, -1, -1, -1}, false},
		"Several":   {"one bound is a late step itself", []int{6, 4, -1, 6, 6, -1}, false},
		"Chain":     {"each needs the one before it", []int{2, 6, 4, 6, -1, -1}, false},
		"AllLate":   {"in any order", []int{3, 3, 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inOrder, moved := []int{}, 0
			for i := range tc.late {
				inOrder = append(inOrder, i)
			}
			for seed := range uint64(300) {
				order := delayed(rand.New(rand.NewPCG(seed, 2)), slices.Clone(tc.late))
				require.ElementsMatch(t, inOrder, order, "each step is taken once")
				holdsOrder(t, tc.late, order)
				if !slices.Equal(inOrder, order) {
					moved++
				}
			}
			if tc.never {
				require.Zero(t, moved, tc.reason)
			} else {
				require.Greater(t, moved, 30, "%s: steps are put off at times", tc.reason)
				require.Less(t, moved, 300, "%s: and at times not", tc.reason)
			}
		})
	}
}

// holdsOrder holds that steps are put off as late says they may be.
func holdsOrder(t *testing.T, late, order []int) {
	t.Helper()
	at := make([]int, len(order))
	for place, i := range order {
		at[i] = place
	}
	for i, bound := range late {
		if bound >= 0 && bound < len(late) {
			require.Less(t, at[i], at[bound], "%v: step %d comes before step %d, which needs it", order, i, bound)
		}
		for j := range i {
			if late[j] < 0 {
				require.Less(t, at[j], at[i], "%v: step %d isn't put off, so it comes before step %d", order, j, i)
			}
		}
	}
}

func TestActsSayWhatTheyAre(t *testing.T) {
	require.Equal(t, "outage for 3s", act{Verb: "outage", For: 3 * time.Second}.String(), "what lasts says how long")
	require.Equal(t, "kill", act{Verb: "kill"}.String(), "what doesn't, doesn't")
}

func TestPaceOfDice(t *testing.T) {
	longest := func(faster time.Duration) (longest time.Duration) {
		for seed := range uint64(60) {
			d := newDice(seed, Kinds{Lag: true}, faster)
			for i := range 100 {
				longest = max(longest, d.next(fmt.Sprint("thing ", i), reads).Delay)
			}
		}
		return longest
	}
	require.Equal(t, longest(1)/10, longest(10), "a run in real time has shorter delays")
}

func TestPlayedDiceDrawNothing(t *testing.T) {
	script := []faults.Fault{{Name: "a", N: 1, Outcome: "503"}}
	for _, d := range []*dice{played(nil), played(script)} {
		for i := range 100 {
			require.Equal(t, faults.Fault{}, d.next(fmt.Sprint("thing ", i), writes))
		}
	}
	require.Equal(t, script[0], played(script).next("a", calls), "whatever the class, the script decides")
}
