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

// learnVerified notes the children that were found to be as desired, without a write. Before that they
// count as unavailable for a rollout, and for what is behind a gate. again says that the next pass can go on.
func (p *pass) learnVerified(planned *plan.Plan) (again bool) {
	if len(planned.Queued)+len(planned.Gated) == 0 {
		return false
	}
	for i := range p.results {
		if r := &p.results[i]; r.Accepted && !r.Wrote && r.Action.Verb != plan.VerbMark {
			p.verified = noted(p.verified, r.Action.Ref)
		}
	}
	return len(p.verified) > 0
}

// noted adds a child to a set, which it makes if there is none.
func noted(set map[object.Ref]struct{}, child object.Ref) map[object.Ref]struct{} {
	if set == nil {
		set = map[object.Ref]struct{}{}
	}
	set[child] = struct{}{}
	return set
}
