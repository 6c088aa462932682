package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faults decides what requests, watches and handlers meet, by a seed or by a
// script, until they are healed.
type faults struct {
	seed   uint64
	script map[string]fault // by name and number; nil: the seed decides
	rates  rates

	mu struct {
		sync.Mutex
		count  map[string]int
		met    []fault
		healed bool
	}
}

// rates are how likely faults are.
type rates struct{ request, frame, handler, kill, slow float64 }

func newFaults(seed uint64, s *script) *faults {
	f := &faults{seed: seed}
	f.mu.count = map[string]int{}
	if s != nil {
		f.script = map[string]fault{}
		for _, one := range s.Faults {
			f.script[numbered(one.Name, one.N)] = one
		}
		return f
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func(of ...float64) float64 { return of[rng.IntN(len(of))] }
	f.rates = rates{
		request: some(0, 0.05, 0.15, 0.3), frame: some(0, 0.02, 0.1), handler: some(0, 0.05, 0.2),
		kill: some(0, 0, 0.005, 0.03), slow: some(0.01, 0.05, 0.2),
	}
	return f
}

func numbered(name string, n int) string { return name + " #" + strconv.Itoa(n) }

// next returns what the next one of a name meets.
func (f *faults) next(name string, rate float64, outcomes ...string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.healed {
		return fault{}
	}
	f.mu.count[name]++
	n := f.mu.count[name]
	var out fault
	if f.script != nil {
		out = f.script[numbered(name, n)]
	} else {
		out = f.draw(numbered(name, n), rate, outcomes)
		out.Name, out.N = name, n
	}
	if out.Outcome == "" {
		return fault{}
	}
	f.mu.met = append(f.mu.met, out)
	return out
}

func (f *faults) draw(what string, rate float64, outcomes []string) fault {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	rng := rand.New(rand.NewPCG(f.seed, h.Sum64()))
	var out fault
	switch dice := rng.Float64(); {
	case dice < f.rates.slow:
		out.Delay = time.Duration(rng.IntN(20_000)) * time.Millisecond
	case dice < 0.5:
		out.Delay = time.Duration(rng.IntN(100)) * time.Millisecond
	}
	if out.Delay > 0 {
		out.Outcome = "ok"
	}
	switch dice := rng.Float64(); {
	case dice < rate:
		out.Outcome = outcomes[rng.IntN(len(outcomes))]
	case dice < rate+f.rates.kill && !strings.HasPrefix(what, "frame "):
		out.Outcome = []string{killBefore, killAfter}[rng.IntN(2)]
	}
	return out
}

// heal ends the faults.
func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.healed = true
}

// met returns what was met, and how much of it was more than slow.
func (f *faults) met() ([]fault, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for _, one := range f.mu.met {
		if one.Outcome != "ok" {
			count++
		}
	}
	return f.mu.met, count
}

// What a request may meet besides an API error.
const (
	killBefore  = "kill-before"  // the process ends before the request is sent
	killAfter   = "kill-after"   // it ends before the answer arrives
	breakBefore = "break-before" // the connection breaks, nothing was done
	breakAfter  = "break-after"  // the connection breaks, it was done
	cutAnswer   = "cut-answer"   // half of the answer arrives
	failAfter   = "500-after"    // it was done, says a server that doesn't know
)

func requestOutcomes(write bool) []string {
	out := []string{"429", "500", "503", "504", breakBefore, breakAfter, cutAnswer, failAfter}
	if write {
		out = append(out, "409", breakAfter, failAfter)
	}
	return out
}

// What a frame of a watch may meet.
const (
	frameEnd  = "end"  // the server ends the watch
	frameHalf = "half" // half of the frame arrives, then the connection breaks
	frameGone = "410"  // the watch ends with 410
	frameHang = "hang" // nothing more arrives until the connection breaks
)
