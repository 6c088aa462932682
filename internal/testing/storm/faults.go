package storm

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kinds says which kinds of faults are drawn.
type Kinds struct{ Kill, Lag, Errors, Conflicts, Leader, Others, Late, External bool }

// All are all kinds.
func All() Kinds {
	return Kinds{Kill: true, Lag: true, Errors: true, Conflicts: true, Leader: true, Others: true, Late: true, External: true}
}

// What a request, a call or a frame may meet.
const (
	only        = "late"         // nothing but its delay
	killBefore  = "kill-before"  // the process ends before the thing is done
	killAfter   = "kill-after"   // it ends when it is done, before it knows
	breakBefore = "break-before" // the connection breaks, nothing was done
	breakAfter  = "break-after"  // the connection breaks, it was done
	cutAnswer   = "cut-answer"   // half of the answer arrives
	failAfter   = "500-after"    // it was done, and the answer is that it failed
	timeAfter   = "504-after"    // the same, as a timeout
	twice       = "twice"        // it is done twice
	frameEnd    = "end"          // the server ends the watch
	frameHalf   = "half"         // half of the frame arrives, then the connection breaks
	frameGone   = "410"          // the watch ends with 410
	frameHang   = "hang"         // nothing more arrives until the connection breaks
)

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
		out = append(out, "429", "503", "504", breakBefore, breakAfter, cutAnswer, timeAfter)
	}
	if k.Errors && (c == reads || c == writes) { // what a dry run ends with is taken for its answer, such as that of a webhook
		out = append(out, "500", failAfter)
	}
	if k.Errors && c == writes {
		out = append(out, breakAfter, failAfter)
	}
	if k.Conflicts && c == writes {
		out = append(out, "409", "409")
	}
	if k.Lag && c == frames {
		out = append(out, frameEnd, frameHalf, frameGone, frameHang)
	}
	if k.External && c == external {
		out = append(out, breakBefore, breakAfter, breakAfter, twice)
	}
	return out
}

// A fault is what the N-th thing of a name meets.
type fault struct {
	Name    string
	N       int
	Outcome string // empty: none
	Delay   time.Duration
}

func (f fault) String() string {
	text := f.Outcome
	if f.Delay > 0 {
		text = strings.TrimPrefix(text+", "+f.Delay.String()+" late", only+", ")
	}
	return text
}

// A dice draws the faults of a run, or plays those of a script, until it is healed.
type dice struct {
	seed   uint64
	kinds  Kinds
	script map[string]fault // by name and number; nil: they are drawn
	rates  map[class]float64
	kill   float64       // how likely a write or a call ends the process
	slow   float64       // how likely a thing takes seconds
	faster time.Duration // what delays are divided by; 0: 1

	mu struct {
		sync.Mutex
		count  map[string]int
		met    []fault
		healed bool
	}
}

// newDice returns the dice of a seed. Without script, the seed decides.
func newDice(seed uint64, kinds Kinds, script []fault) *dice {
	d := &dice{seed: seed, kinds: kinds}
	d.mu.count = map[string]int{}
	if script != nil {
		d.script = map[string]fault{}
		for _, f := range script {
			d.script[numbered(f.Name, f.N)] = f
		}
		return d
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func(of ...float64) float64 { return of[rng.IntN(len(of))] }
	d.rates = map[class]float64{
		reads: some(0, 0.03, 0.1), trials: some(0, 0.03, 0.1), writes: some(0, 0.05, 0.2), frames: some(0, 0.02, 0.05), external: some(0, 0.1, 0.3),
	}
	d.slow = some(0, 0.02, 0.1)
	if kinds.Kill {
		d.kill = some(0, 0.02, 0.08)
	}
	return d
}

// calm returns dice that draw nothing.
func calm() *dice { return newDice(0, Kinds{}, []fault{}) }

func numbered(name string, n int) string { return name + " #" + strconv.Itoa(n) }

// next returns what the next thing of a name meets.
func (d *dice) next(name string, c class) fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.healed {
		return fault{}
	}
	d.mu.count[name]++
	n := d.mu.count[name]
	f := d.script[numbered(name, n)]
	if d.script == nil {
		f = d.draw(name, n, c)
	}
	if f.Outcome != "" {
		d.mu.met = append(d.mu.met, f)
	}
	return f
}

// draw depends on nothing but seed, name and number, so that the same thing meets the same
// fault in every order of goroutines.
func (d *dice) draw(name string, n int, c class) fault {
	rng := d.source(numbered(name, n))
	f := fault{Name: name, N: n}
	if d.kinds.Lag {
		switch p := rng.Float64(); {
		case p < d.slow:
			f.Delay = time.Duration(rng.IntN(20_000)) * time.Millisecond
		case p < 0.3:
			f.Delay = time.Duration(rng.IntN(100)) * time.Millisecond
		}
	}
	if f.Delay /= max(1, d.faster); f.Delay > 0 {
		f.Outcome = only
	}
	outcomes, p := d.kinds.outcomes(c), rng.Float64()
	switch {
	case p < d.rates[c] && len(outcomes) > 0:
		f.Outcome = outcomes[rng.IntN(len(outcomes))]
	case (c == writes || c == calls || c == external) && p > 1-d.kill:
		f.Outcome = []string{killBefore, killAfter}[rng.IntN(2)]
	}
	return f
}

// source returns random numbers that depend on the seed and a name.
func (d *dice) source(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(d.seed, h.Sum64()))
}

// heal ends the faults.
func (d *dice) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.healed = true
}

func (d *dice) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.healed
}

// met returns the faults so far.
func (d *dice) met() []fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.met)
}

// A script is all that happens in a run besides what its operator does.
type script struct {
	Gaps     []time.Duration // before each step
	Order    []int           // of the steps
	Acts     []act
	Faults   []fault
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
