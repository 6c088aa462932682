package plan

import (
	"crypto/subtle"
	"math"
	"time"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// What a handler wants may take many passes, of which each waits for what the one before has
// written: children behind gates, rollouts. Where that is ready at once, nobody else has a part in
// it. Such steps are no conflict loop, since they come to an end: while the handler wants the same,
// each child is written a few times at most.

const (
	// stepsPerChild is how many steps a child may take: one deletes it, and one creates it anew.
	stepsPerChild = 2
	// stepsAnew is how long nothing must have been written before there may be as many steps
	// again: somebody may delete all children at any time.
	stepsAnew = time.Hour
)

// A stepMemory remembers what a handler wanted last, and whether the last pass made a step of it.
type stepMemory struct {
	wish jsonvalue.Digest // of all desired children
	left int32            // how many more steps there may be
	last int64            // when children were last written, in nanoseconds since 1970
	made bool             // and no status has followed from it yet
}

// Wants notes what a handler wants, and says whether it wanted the same at the last pass.
func (p *ParentMemory) Wants(desired []*Desired) (again bool) {
	wish := jsonvalue.Digest{}
	for _, d := range desired { // in whatever order
		subtle.XORBytes(wish[:], wish[:], d.hash[:])
	}
	again, p.steps.wish = p.steps.wish == wish, wish
	return again
}

// MayStep says whether the pass, which writes children, may be a step to what Wants has noted.
// again is what Wants has said. of is how many children are desired.
func (p *ParentMemory) MayStep(again bool, now time.Time, of int) bool {
	at := now.UnixNano()
	if !again || at-p.steps.last > int64(stepsAnew) {
		p.steps.left = int32(min(of, math.MaxInt32/stepsPerChild) * stepsPerChild)
	}
	p.steps.last = at
	if !again || p.steps.left == 0 {
		return false
	}
	p.steps.left--
	return true
}

// Stepped notes whether the pass has made a step: it has written children of which the handler
// wanted the same at the last pass, and undone nothing that others did.
func (p *ParentMemory) Stepped(made bool) { p.steps.made = made }

// TakeStep says whether the last pass made a step that no status has followed from yet. The
// status that the caller writes does.
func (p *ParentMemory) TakeStep() bool {
	made := p.steps.made
	p.steps.made = false
	return made
}
