package reconcile

import (
	"fmt"
	"slices"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

// A rollout updates the children of a type a few at a time: see config.Roll. plan.Build decides
// whose turn it is. This file is about what passes know of one another.

// rollTexts says for each type whose children aren't all updated yet at which children that
// stands.
func (p *pass) rollTexts(planned *plan.Plan) (texts []string) {
	for i := range planned.Queued {
		q := &planned.Queued[i]
		var names []string
		for _, ref := range q.For {
			if _, ok := p.verified[ref]; !ok {
				names = append(names, p.nameOf(ref))
			}
		}
		if names == nil {
			continue // the next pass follows at once
		}
		text := fmt.Sprintf("not updating another %s before %s%s", q.Ref.Type.Kind, joinNames(names), areReady(len(names)))
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// learnUndecided remembers the children of which the pass couldn't find out whether they differ.
// While nobody knows whether a child will be written, it counts as unavailable, once: for a
// rollout, and for what is behind a gate. again says that the next pass can go on, since there
// are no such children any more.
func (p *pass) learnUndecided(planned *plan.Plan) (again bool) {
	var undecided map[object.Ref]struct{}
	for i := range p.results {
		r := &p.results[i]
		ref := r.Action.Ref
		if r.Wrote || r.Action.Verb != plan.VerbVerify || r.Action.Kind.Child.Roll == nil && len(planned.Gated) == 0 {
			continue
		}
		if !p.memory.IsUndecided(ref) {
			p.verified = noted(p.verified, ref)
		}
		if !r.Accepted {
			undecided = noted(undecided, ref)
		}
	}
	p.memory.Undecided(undecided)
	return len(p.verified) > 0 && len(planned.Queued)+len(planned.Gated) > 0
}

// noted adds a child to a set, which it makes if there is none.
func noted(set map[object.Ref]struct{}, child object.Ref) map[object.Ref]struct{} {
	if set == nil {
		set = map[object.Ref]struct{}{}
	}
	set[child] = struct{}{}
	return set
}
