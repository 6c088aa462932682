package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/roperator/roperator/internal/testing/faults"
)

// A dice draws what requests, watches and handlers meet, by the rates of a seed.
type dice struct {
	*faults.Dice
	rates rates
}

// rates are how likely faults are.
type rates struct{ request, frame, handler, kill, slow float64 }

// newDice returns the dice of a seed.
func newDice(seed uint64) *dice {
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func(of ...float64) float64 { return of[rng.IntN(len(of))] }
	return &dice{faults.Draw(seed), rates{
		request: some(0, 0.05, 0.15, 0.3), frame: some(0, 0.02, 0.1), handler: some(0, 0.1, 0.3),
		kill: some(0, 0.005, 0.03), slow: some(0.01, 0.05, 0.2),
	}}
}

// played returns dice that play the faults of a script, and draw none.
func played(s *script) *dice { return &dice{Dice: faults.Play(s.Faults)} }

// next returns what the next one of a name meets.
func (d *dice) next(name string, rate float64, outcomes ...string) faults.Fault {
	return d.Next(name, faults.Odds{Rate: rate, Outcomes: outcomes, Kill: d.killRate(name), Soon: 0.5, Slow: d.rates.slow})
}

// killRate is how likely a process is killed by something. Of handlers'
// calls there are few.
func (d *dice) killRate(what string) float64 {
	of, _, _ := strings.Cut(what, " ")
	switch class(of) {
	case "frame":
		return 0
	case "sync":
		return 3 * d.rates.kill
	case "finalize":
		return min(0.5, 30*d.rates.kill)
	}
	return d.rates.kill
}

// count returns how often which kind of fault was met.
func (d *dice) count() map[string]int {
	kinds := map[string]int{}
	for _, one := range d.Met() {
		of, _, _ := strings.Cut(one.Name, " ")
		switch outcome := one.Outcome; {
		case outcome != faults.Late:
			kinds[class(of)+" "+outcome]++
		case one.Delay > time.Second:
			kinds[class(of)+" late"]++
		}
	}
	return kinds
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
		out = append(out, of+faults.KillBefore, of+faults.KillAfter)
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
func frameOutcomes() []string {
	return []string{faults.End, faults.Half, faults.Gone, faults.Hang, faults.Again(1), faults.Again(4)}
}

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
		"fail child", "recover child", "break", "unbreak", "freeze", "thaw", sawStep, sawGate, sawReady, sawTeardown, sawShard,
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
	sawRestore     = "ended by a restore"
	sawOvertaken   = "overtaken after a restore"
	sawUnrelated   = "change of what nobody refers to"
	sawStep        = "step of a rollout"
	sawGate        = "creation behind a gate"
	sawReady       = "parent that is ready"
	sawTeardown    = "deletion in order"
	sawShard       = "write for a parent of a shard"
)

// compact is what a request meets before which all is forgotten that was, such as the rest of a
// list.
const compact = "compact"

func requestOutcomes(write bool) []string {
	out := []string{"429", "500", "503", "504", faults.BreakBefore, faults.BreakAfter, faults.CutAnswer, faults.FailAfter, faults.TimeAfter, faults.PageMissing, faults.PageFine}
	if write {
		out = append(out, "409", faults.BreakAfter, faults.FailAfter)
	}
	return out
}
