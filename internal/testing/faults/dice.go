package faults

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

// A Fault is what the N-th thing of a name meets.
type Fault struct {
	Name    string
	N       int
	Outcome string // empty: none
	Delay   time.Duration
}

// String returns what is met, for people.
func (f Fault) String() string {
	text := f.Outcome
	if f.Delay > 0 {
		text = strings.TrimPrefix(text+", "+f.Delay.String()+" late", Late+", ")
	}
	return text
}

// Line returns a line of a script, which ParseLine reads.
func (f Fault) Line() string { return fmt.Sprintf("on %s #%d %s %v", f.Name, f.N, f.Outcome, f.Delay) }

// ParseLine reads what Line has written, as words.
func ParseLine(words []string) (Fault, error) {
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "#") })
	if at < 2 || at != len(words)-3 || words[0] != "on" {
		return Fault{}, fmt.Errorf("fault: %q isn't on NAME #N OUTCOME DELAY", strings.Join(words, " "))
	}
	f := Fault{Name: strings.Join(words[1:at], " "), Outcome: words[at+1]}
	var err error
	if f.N, err = strconv.Atoi(words[at][1:]); err != nil {
		return Fault{}, fmt.Errorf("fault: %w", err)
	}
	if f.Delay, err = time.ParseDuration(words[at+2]); err != nil {
		return Fault{}, fmt.Errorf("fault: %w", err)
	}
	return f, nil
}

// Odds are how likely it is that a thing meets a fault.
type Odds struct {
	Rate     float64       // of one of the outcomes
	Outcomes []string      // what is likelier is there more than once
	Kill     float64       // that the process ends, before the thing or after it
	Soon     float64       // of a delay of up to 100 ms, or of a long one
	Slow     float64       // of a delay of up to 20 s
	Faster   time.Duration // what delays are divided by; 0: 1
}

// Dice draw what things meet, or play a script, until they are healed. They may be used
// concurrently.
type Dice struct {
	seed   uint64
	script map[string]Fault // by name and number; nil: they draw

	mu struct {
		sync.Mutex
		count  map[string]int
		met    []Fault
		healed bool
	}
}

// Draw returns dice that draw by a seed.
func Draw(seed uint64) *Dice {
	d := &Dice{seed: seed}
	d.mu.count = map[string]int{}
	return d
}

// Play returns dice that play the faults of a script, and no other.
func Play(script []Fault) *Dice {
	d := Draw(0)
	d.script = map[string]Fault{}
	for _, f := range script {
		d.script[numbered(f.Name, f.N)] = f
	}
	return d
}

func numbered(name string, n int) string { return name + " #" + strconv.Itoa(n) }

// Next returns what the next thing of a name meets.
func (d *Dice) Next(name string, odds Odds) Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.healed {
		return Fault{}
	}
	d.mu.count[name]++
	n := d.mu.count[name]
	f := d.script[numbered(name, n)]
	if d.script == nil {
		f = d.draw(name, n, odds)
	}
	if f.Outcome != "" {
		d.mu.met = append(d.mu.met, f)
	}
	return f
}

// draw depends on nothing but seed, name, number and odds, so that the same thing meets the same
// fault in every order of goroutines.
func (d *Dice) draw(name string, n int, odds Odds) Fault {
	rng := d.Source(numbered(name, n))
	f := Fault{Name: name, N: n}
	switch p := rng.Float64(); {
	case p < odds.Slow:
		f.Delay = time.Duration(rng.IntN(20_000)) * time.Millisecond
	case p < odds.Soon:
		f.Delay = time.Duration(rng.IntN(100)) * time.Millisecond
	}
	if f.Delay /= max(1, odds.Faster); f.Delay > 0 {
		f.Outcome = Late
	}
	switch p := rng.Float64(); {
	case p < odds.Rate && len(odds.Outcomes) > 0:
		f.Outcome = odds.Outcomes[rng.IntN(len(odds.Outcomes))]
	case p > 1-odds.Kill:
		f.Outcome = []string{KillBefore, KillAfter}[rng.IntN(2)]
	}
	return f
}

// Source returns random numbers that depend on the seed and a name.
func (d *Dice) Source(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return rand.New(rand.NewPCG(d.seed, h.Sum64()))
}

// Heal ends the faults.
func (d *Dice) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.healed = true
}

// Over says whether the faults have ended.
func (d *Dice) Over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.healed
}

// Met returns the faults so far, in the order in which they were met.
func (d *Dice) Met() []Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.met)
}
