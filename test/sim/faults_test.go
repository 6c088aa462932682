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
		request: some(0, 0.05, 0.15, 0.3), frame: some(0, 0.02, 0.1), handler: some(0, 0.1, 0.3),
		kill: some(0, 0.005, 0.03), slow: some(0.01, 0.05, 0.2),
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
	case dice < rate+f.killRate(what):
		out.Outcome = []string{killBefore, killAfter}[rng.IntN(2)]
	}
	return out
}

// killRate is how likely a process is killed by something. Of handlers'
// calls there are few.
func (f *faults) killRate(what string) float64 {
	of, _, _ := strings.Cut(what, " ")
	switch class(of) {
	case "frame":
		return 0
	case "sync":
		return 3 * f.rates.kill
	case "finalize":
		return min(0.5, 30*f.rates.kill)
	}
	return f.rates.kill
}

// heal ends the faults.
func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.healed = true
}

// met returns what was met, and how often which kind of fault.
func (f *faults) met() ([]fault, map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds := map[string]int{}
	for _, one := range f.mu.met {
		of, _, _ := strings.Cut(one.Name, " ")
		switch {
		case one.Outcome != "ok":
			kinds[class(of)+" "+one.Outcome]++
		case one.Delay > time.Second:
			kinds[class(of)+" late"]++
		}
	}
	return f.mu.met, kinds
}

// class returns what the first word of a fault's name is a kind of.
func class(word string) string {
	switch word {
	case "frame", "sync", "finalize", "relate":
		return word
	case "GET", "WATCH":
		return "read"
	}
	return "write"
}

// kindsOfFaults are those that some seeds must have met.
func kindsOfFaults() []string {
	out := []string{"read late", "write late", "frame late"}
	for _, of := range []string{"read ", "write ", "sync ", "finalize "} {
		out = append(out, of+killBefore, of+killAfter)
	}
	for _, outcome := range requestOutcomes(true) {
		out = append(out, "write "+outcome)
	}
	for _, outcome := range requestOutcomes(false) {
		out = append(out, "read "+outcome)
	}
	for _, outcome := range frameOutcomes() {
		out = append(out, "frame "+outcome)
	}
	for _, outcome := range syncOutcomes() {
		out = append(out, "sync "+outcome)
	}
	for _, outcome := range relateOutcomes() {
		out = append(out, "relate "+outcome)
	}
	for _, outcome := range finalizeOutcomes() {
		out = append(out, "finalize "+outcome)
	}
	return append(out, noted()...)
}

func syncOutcomes() []string     { return []string{"error", "panic", "keep", "nil"} }
func relateOutcomes() []string   { return []string{"error", "panic"} }
func finalizeOutcomes() []string { return []string{"error", "panic", "zero", "retry", "nil"} }
func frameOutcomes() []string    { return []string{frameEnd, frameHalf, frameGone, frameHang} }

// noted are kinds of faults that aren't drawn, but seen: what others did, and
// what came of it.
func noted() []string {
	return []string{
		sawExpired, sawExpiredPage, sawBookmark, sawRelist, sawPage, sawRefused, sawHandover, sawStandby,
		"create", "set", "delete Parent", "delete-in-foreground Parent", "delete child", "label Parent", "label child", "hold Parent", "hold child",
		"let-go Parent", "let-go child", "put-aside Parent", "clear-status", "tamper child", "cut-lease", "strip child", "orphan child",
		"unmark child", "replace child", "revert child", "occupy child", "copy child",
		"compact", "break-watches", "bookmark", "outage", "kill", "stop", "lag", "catch-up",
		"put", "drop", "redo", "refer", sawUnrelated,
		"fail child", "recover child", "break", "unbreak", "freeze", "thaw", sawStep, sawGate, sawReady, sawTeardown,
	}
}

const (
	sawExpired     = "410 to a watch"
	sawExpiredPage = "410 to a page"
	sawBookmark    = "bookmark to a watch"
	sawRelist      = "list after the first"
	sawPage        = "page after the first"
	sawRefused     = "connection refused"
	sawHandover    = "leader change"
	sawStandby     = "two processes"
	sawUnrelated   = "change of what nobody refers to"
	sawStep        = "step of a rollout"
	sawGate        = "creation behind a gate"
	sawReady       = "parent that is ready"
	sawTeardown    = "deletion in order"
)

// What a request may meet besides an API error.
const (
	killBefore  = "kill-before"  // the process ends before the request is sent
	killAfter   = "kill-after"   // it ends before the answer arrives
	breakBefore = "break-before" // the connection breaks, nothing was done
	breakAfter  = "break-after"  // the connection breaks, it was done
	cutAnswer   = "cut-answer"   // half of the answer arrives
	failAfter   = "500-after"    // the server has done it and doesn't know
	timeAfter   = "504-after"    // the same, as a timeout
	compact     = "compact"      // nothing that was before can be read any more, such as the rest of a list
)

func requestOutcomes(write bool) []string {
	out := []string{"429", "500", "503", "504", breakBefore, breakAfter, cutAnswer, failAfter, timeAfter}
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
