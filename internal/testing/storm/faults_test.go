package storm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func allClasses() []class { return []class{reads, trials, writes, frames, calls, external} }

// A thing is something that may meet a fault.
type thing struct {
	name string
	c    class
}

// things returns some of each class, several of each name.
func things() (out []thing) {
	for range 4 {
		for i := range 8 {
			for _, c := range allClasses() {
				out = append(out, thing{fmt.Sprintf("thing %d of class %d", i, c), c})
			}
		}
	}
	return out
}

// drawn returns what things meet, by name and number.
func drawn(d *dice, all []thing) map[string]fault {
	out, count := map[string]fault{}, map[string]int{}
	for _, one := range all {
		count[one.name]++
		out[numbered(one.name, count[one.name])] = d.next(one.name, one.c)
	}
	return out
}

func TestDiceAreTheSeeds(t *testing.T) {
	others := 0
	for seed := range uint64(30) {
		inOrder := things()
		shuffled := slices.Clone(inOrder)
		rand.New(rand.NewPCG(seed, 9)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		first := drawn(newDice(seed, All(), nil), inOrder)
		require.Equal(t, first, drawn(newDice(seed, All(), nil), shuffled), "seed %d: the order of things decides nothing", seed)
		if fmt.Sprint(first) != fmt.Sprint(drawn(newDice(seed+1, All(), nil), inOrder)) {
			others++
		}
	}
	require.Greater(t, others, 25, "another seed draws something else")
}

func TestDiceTellThingsApart(t *testing.T) {
	byNumber, byName := map[string]bool{}, map[string]bool{}
	d := newDice(1, Kinds{Lag: true}, nil)
	for i := range 100 {
		byNumber[d.next("a", reads).String()] = true
		byName[d.next(fmt.Sprint("b", i), reads).String()] = true
	}
	require.Greater(t, len(byNumber), 10, "each time it may be something else")
	require.Greater(t, len(byName), 10, "for each name it may be something else")
}

// meets returns which outcomes a class meets under some seeds, beside delays, and the longest delay.
func meets(kinds Kinds, c class) (outcomes []string, longest time.Duration) {
	found := map[string]bool{}
	for seed := range uint64(60) {
		d := newDice(seed, kinds, nil)
		for i := range 100 {
			f := d.next(fmt.Sprint("thing ", i), c)
			longest = max(longest, f.Delay)
			if f.Outcome != "" && f.Outcome != only {
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
	kills := []string{killBefore, killAfter}
	errs := []string{"429", "503", "504", breakBefore, breakAfter, cutAnswer, timeAfter}
	more := append(slices.Clone(errs), "500", failAfter)
	for name, tc := range map[string]struct {
		reason string
		kinds  Kinds
		want   map[class][]string
		late   bool
	}{
		"None":      {"no kinds, no fault", Kinds{}, nil, false},
		"Kill":      {"processes die at what has an effect", Kinds{Kill: true}, map[class][]string{writes: kills, calls: kills, external: kills}, false},
		"Lag":       {"all may be late, and watches end", Kinds{Lag: true}, map[class][]string{frames: {frameEnd, frameHalf, frameGone, frameHang}}, true},
		"Errors":    {"requests fail", Kinds{Errors: true}, map[class][]string{reads: more, trials: errs, writes: more}, false},
		"Conflicts": {"only writes conflict", Kinds{Conflicts: true}, map[class][]string{writes: {"409"}}, false},
		"External":  {"only calls of outside systems fail", Kinds{External: true}, map[class][]string{external: {breakBefore, breakAfter, twice}}, false},
		"Scripted":  {"these are no faults of requests", Kinds{Leader: true, Others: true, Late: true}, nil, false},
		"All": {
			"a class has those of all kinds", All(), map[class][]string{
				reads: more, trials: errs, writes: slices.Concat(more, kills, []string{"409"}), frames: {frameEnd, frameHalf, frameGone, frameHang},
				calls: kills, external: append([]string{breakBefore, breakAfter, twice}, kills...),
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

func TestDiceNoteWhatIsMet(t *testing.T) {
	d := newDice(5, All(), nil)
	var want []fault
	for _, one := range things() {
		if f := d.next(one.name, one.c); f.Outcome != "" {
			want = append(want, f)
		}
	}
	require.NotEmpty(t, want, "the seed has faults")
	require.Equal(t, want, d.met(), "in the order in which they were met, and nothing else")

	played := newDice(99, Kinds{}, d.met())
	require.Equal(t, drawn(newDice(5, All(), nil), things())[numbered(want[0].Name, want[0].N)], want[0])
	for _, one := range things() {
		played.next(one.name, one.c)
	}
	require.Equal(t, want, played.met(), "played as a script they are the same, whatever the seed and the kinds")
}

func TestHeal(t *testing.T) {
	d := newDice(0, Kinds{}, []fault{{Name: "a", N: 1, Outcome: "500"}, {Name: "a", N: 2, Outcome: "503"}})
	d.next("a", reads)
	require.False(t, d.over(), "the faults go on")
	d.heal()
	require.True(t, d.over(), "they are over")
	require.Equal(t, fault{}, d.next("a", reads), "nothing is met any more")
	require.Equal(t, []fault{{Name: "a", N: 1, Outcome: "500"}}, d.met(), "what was met stays noted")

	drawing := newDice(1, All(), nil)
	drawing.heal()
	for _, one := range things() {
		require.Equal(t, fault{}, drawing.next(one.name, one.c), "dice that draw end, too")
	}
}

func TestScriptPlaysItsFaults(t *testing.T) {
	script := []fault{
		{Name: "a", N: 2, Outcome: "500"},
		{Name: "b", N: 1, Outcome: only, Delay: time.Second},
		{Name: "c", N: 1, Outcome: "503"}, // never met
	}
	for name, tc := range map[string]struct {
		reason string
		script []fault
		want   []fault
	}{
		"Script": {"the N-th of a name meets its fault, and no other", script, []fault{{}, script[1], script[0], {}, {}}},
		"Empty":  {"a script without faults isn't one that is yet to be drawn", []fault{}, []fault{{}, {}, {}, {}, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDice(1, All(), tc.script)
			var met []fault
			for _, name := range []string{"a", "b", "a", "a", "b"} {
				met = append(met, d.next(name, writes))
			}
			require.Equal(t, tc.want, met, tc.reason)
		})
	}
	for _, one := range things() {
		require.Equal(t, fault{}, calm().next(one.name, one.c), "calm dice draw nothing")
	}
}

func TestFaultsSayWhatTheyAre(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		f      fault
		want   string
	}{
		"None": {"nothing is met", fault{}, ""},
		"Code": {"the outcome", fault{Outcome: "503"}, "503"},
		"Late": {"a delay alone", fault{Outcome: only, Delay: time.Second}, "1s late"},
		"Both": {"both", fault{Outcome: "503", Delay: 2 * time.Second}, "503, 2s late"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.f.String(), tc.reason) })
	}
	require.Equal(t, "outage for 3s", act{Verb: "outage", For: 3 * time.Second}.String(), "what lasts says how long")
	require.Equal(t, "kill", act{Verb: "kill"}.String(), "what doesn't, doesn't")
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
