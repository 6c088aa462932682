package storm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/testing/faults"
)

// Kinds says which kinds of faults are drawn.
type Kinds struct{ Kill, Lag, Errors, Conflicts, Leader, Others, Late, External bool }

// All are all kinds.
func All() Kinds {
	return Kinds{Kill: true, Lag: true, Errors: true, Conflicts: true, Leader: true, Others: true, Late: true, External: true}
}

// A class is a sort of things that meet the same faults.
type class int

const (
	reads  class = iota
	trials       // dry runs
	writes
	frames
	calls    // of the handler
	external // calls of outside systems
)

// outcomes are what a class may meet. Those that are likelier are there more than once.
func (k Kinds) outcomes(c class) (out []string) {
	if k.Errors && (c == reads || c == trials || c == writes) {
		out = append(out, "429", "503", "504", faults.BreakBefore, faults.BreakAfter, faults.CutAnswer, faults.TimeAfter)
	}
	if k.Errors && (c == reads || c == writes) { // what a dry run ends with is taken for its answer, such as that of a webhook
		out = append(out, "500", faults.FailAfter)
	}
	if k.Errors && c == writes {
		out = append(out, faults.BreakAfter, faults.FailAfter)
	}
	if k.Conflicts && c == writes {
		out = append(out, "409", "409")
	}
	if k.Lag && c == frames {
		out = append(out, faults.End, faults.Half, faults.Gone, faults.Hang)
	}
	if k.External && c == external {
		out = append(out, faults.BreakBefore, faults.BreakAfter, faults.BreakAfter, faults.Twice)
	}
	return out
}

// A dice draws the faults of a run by their kinds.
type dice struct {
	*faults.Dice
	odds map[class]faults.Odds
}

// newDice returns the dice of a seed, at a pace whose delays are divided by faster.
func newDice(seed uint64, kinds Kinds, faster time.Duration) *dice {
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func(of ...float64) float64 { return of[rng.IntN(len(of))] }
	rates := map[class]float64{
		reads: some(0, 0.03, 0.1), trials: some(0, 0.03, 0.1), writes: some(0, 0.05, 0.2), frames: some(0, 0.02, 0.05), external: some(0, 0.1, 0.3),
	}
	slow, kill := some(0, 0.02, 0.1), 0.0
	if kinds.Kill {
		kill = some(0, 0.02, 0.08)
	}
	d := &dice{Dice: faults.Draw(seed), odds: map[class]faults.Odds{}}
	for _, c := range []class{reads, trials, writes, frames, calls, external} {
		odds := faults.Odds{Rate: rates[c], Outcomes: kinds.outcomes(c), Faster: faster}
		if kinds.Lag {
			odds.Slow, odds.Soon = slow, 0.3
		}
		if c == writes || c == calls || c == external {
			odds.Kill = kill
		}
		d.odds[c] = odds
	}
	return d
}

// played returns dice that play these faults, and draw none.
func played(script []faults.Fault) *dice { return &dice{Dice: faults.Play(script)} }

// next returns what the next thing of a name meets.
func (d *dice) next(name string, c class) faults.Fault { return d.Next(name, d.odds[c]) }

// A script is all that happens in a run besides what its operator does.
type script struct {
	Gaps     []time.Duration // before each step
	Order    []int           // of the steps
	Acts     []act
	Faults   []faults.Fault
	Replicas int
}

// An act is something that others do at a time.
type act struct {
	At   time.Duration
	Verb string
	N    int           // which of the objects that there are
	For  time.Duration // of what lasts
}

func (a act) String() string {
	if a.For > 0 {
		return fmt.Sprintf("%s for %v", a.Verb, a.For)
	}
	return a.Verb
}

// verbs are what may happen to a run at some time.
func (k Kinds) verbs(replicas int, externals bool) (out []string) {
	add := func(on bool, verbs ...string) {
		if on {
			out = append(out, verbs...)
		}
	}
	add(k.Kill, "kill", "stop")
	add(k.Lag, "compact", "break-watches", "bookmark")
	add(k.Errors, "outage")
	add(k.External && externals, "silence", "silence")
	add(k.Leader && replicas > 1, "cut-lease", "cut-lease", "stop")
	add(k.Others, "delete-child", "delete-child", "tamper-child", "touch-parent", "change-related", "replace-related")
	return out
}

// write draws the script of a seed for steps, of which late says whether, and up to which other
// one, each may be put off.
func write(seed uint64, kinds Kinds, late []int, externals bool) script {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := script{Replicas: 1}
	if kinds.Leader && rng.IntN(6) == 0 {
		s.Replicas = 2
	}
	var total time.Duration
	for i := range late {
		s.Order = append(s.Order, i)
		gap := time.Duration(0)
		switch rng.IntN(4) {
		case 1:
			gap = time.Duration(1+rng.IntN(50)) * time.Millisecond
		case 2:
			gap = time.Duration(100+rng.IntN(900)) * time.Millisecond
		case 3:
			gap = time.Duration(2000+rng.IntN(8000)) * time.Millisecond
		}
		s.Gaps = append(s.Gaps, gap)
		total += gap
	}
	if kinds.Late {
		s.Order = delayed(rng, late)
	}
	verbs := kinds.verbs(s.Replicas, externals)
	if len(verbs) == 0 {
		return s
	}
	for range []int{0, 0, 1, 2, 4, 8}[rng.IntN(6)] {
		a := act{At: time.Duration(rng.Int64N(int64(total + 10*time.Second))), Verb: verbs[rng.IntN(len(verbs))], N: rng.IntN(1000)}
		switch a.Verb {
		case "outage", "silence":
			a.For = time.Duration(1+rng.IntN(40)) * time.Second
		case "cut-lease":
			a.For = time.Duration(15+rng.IntN(30)) * time.Second
		}
		s.Acts = append(s.Acts, a)
	}
	slices.SortFunc(s.Acts, func(a, b act) int { return int(a.At - b.At) })
	return s
}

// delayed returns an order in which some steps come later, but before the step late[i].
func delayed(rng *rand.Rand, late []int) []int {
	order := make([]int, 0, len(late))
	for i := range late {
		order = append(order, i)
	}
	for i, bound := range slices.Backward(late) {
		if bound < 0 || rng.IntN(3) > 0 {
			continue
		}
		at, end := slices.Index(order, i), len(order)
		if bound < len(late) {
			end = slices.Index(order, bound)
		}
		if room := end - at - 1; room > 0 {
			order = slices.Insert(slices.Delete(order, at, at+1), at+1+rng.IntN(room), i)
		}
	}
	return order
}
