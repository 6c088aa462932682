package plan

import (
	"crypto/subtle"
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
	left int              // how many more steps there may be
	last int64            // when children were last written, in nanoseconds since 1970
	made bool             // and no status has followed from it yet
}

// MayStep says whether the writes of a pass may be a step: the handler wanted the same children at
// the last pass, and there weren't too many steps yet. It is called once a pass, and remembers what
// is desired. writes says whether the pass has written children: only then may it be a step.
func (p *ParentMemory) MayStep(desired []*Desired, writes bool, now time.Time) bool {
	wish := jsonvalue.Digest{}
	for _, d := range desired { // in whatever order
		subtle.XORBytes(wish[:], wish[:], d.hash[:])
	}
	m, at := &p.steps, now.UnixNano()
	again := m.wish == wish
	if m.wish = wish; !again || writes && at-m.last > int64(stepsAnew) {
		m.left = stepsPerChild * len(desired)
	}
	if !writes {
		return false
	}
	m.last = at
	if !again || m.left == 0 {
		return false
	}
	m.left--
	return true
}

// Stepped notes whether the pass has made a step, and undone nothing that others did.
func (p *ParentMemory) Stepped(made bool) { p.steps.made = made }

// TakeStep says whether the last pass made a step that no status has followed from yet. The
// status that the caller writes does.
func (p *ParentMemory) TakeStep() bool {
	made := p.steps.made
	p.steps.made = false
	return made
}
