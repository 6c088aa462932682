package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// learn remembers the results of the actions on children, and returns what they
// ask of the scheduler. keptAll says that the response left the children as they
// are.
func (p *pass) learn(ctx context.Context, planned *plan.Plan, desired []*plan.Desired, keptAll bool) schedule.Outcome {
	var out schedule.Outcome
	for i := range planned.Settled {
		p.memory.Carry(&planned.Settled[i])
	}
	now := time.Now()
	if len(p.results) > 0 {
		p.desired = tallyOf(desired)
	}
	for i := range p.results {
		out = out.Merge(p.learnOne(ctx, &p.results[i], now))
	}
	out.Resync = schedule.Soonest(out.Resync, p.memory.DriftIn(now))
	p.learnSought(planned)
	out.Again = p.learnVerified(planned) || out.Again
	if p.Config.DryRun {
		p.foreseeWaiting(planned)
	}
	if !keptAll {
		p.memory.KeepOnly(desired)
		p.store.ForgetFields(p.judged(planned))
	}
	return out
}

// learnSought learns which children behind gates are there. Those have nothing to wait for, and
// are taken off planned.Gated.
func (p *pass) learnSought(planned *plan.Plan) {
	if len(planned.Sought) == 0 {
		return
	}
	results := make(map[object.Ref]*apply.Result, len(planned.Sought))
	for i := range planned.Sought {
		results[planned.Sought[i].Ref] = nil
	}
	for i := range p.results {
		if _, sought := results[p.results[i].Action.Ref]; sought {
			results[p.results[i].Action.Ref] = &p.results[i]
		}
	}
	gated := planned.Gated[:0]
	for _, g := range planned.Gated {
		r := results[g.Ref()]
		if r != nil && (r.Wrote || r.Accepted || r.Await || r.Skipped) {
			continue
		}
		if r != nil && r.Absent {
			p.memory.Absent(g.Ref())
			g.Taken = r.Taken
		}
		gated = append(gated, g)
	}
	planned.Gated = gated
}

// judged returns the children of which a later pass needn't ask managedFields: all
// but those whose action came to nothing.
func (p *pass) judged(planned *plan.Plan) []*resource.Resource {
	open := map[object.Ref]struct{}{}
	for _, r := range p.results {
		if !r.Accepted && !r.Wrote {
			open[r.Action.Ref] = struct{}{}
		}
	}
	for _, r := range planned.Refused {
		open[r.Ref] = struct{}{}
	}
	for i := range planned.Queued {
		open[planned.Queued[i].Ref] = struct{}{}
	}
	for i := range planned.Pending {
		open[planned.Pending[i].Ref] = struct{}{}
	}
	if len(open) == 0 {
		return p.children
	}
	return slices.DeleteFunc(slices.Clone(p.children), func(child *resource.Resource) bool {
		_, ok := open[object.RefOf(child)]
		return ok
	})
}

// learnOne is learn for the result of one action.
func (p *pass) learnOne(ctx context.Context, r *apply.Result, now time.Time) (out schedule.Outcome) {
	a := r.Action
	p.count(r)
	if r.Wrote {
		out.Again = true
		p.did = append(p.did, string(r.Did())+" "+a.Ref.String())
		if r.Err == nil && !p.parent.IsDeleting() {
			p.countWrite(r, now)
		}
	}
	if r.Undeleted {
		p.countGhost(a.Ref, now)
	}
	p.remember(ctx, r, now)
	if r.Skipped && r.Would != plan.VerbMark {
		p.foreseen = append(p.foreseen, p.changeOfChild(r))
	}
	if r.Await && !r.Parked {
		out.Resync = p.awaitFor(a)
		if r.Elsewhere {
			out.Resync = min(out.Resync, elsewhereWithin)
		}
		out.Again = out.Again || p.newerHeld(a)
	}
	return out
}

// elsewhereWithin bounds how long it is waited before it is looked again whether a name is free that a child of another
// shard's parent has. No watch tells of it.
const elsewhereWithin = 15 * time.Second

// awaitFor returns how long to wait for the newer state of the child of an action
// before the parent is due again: the longer, the more often it was in vain.
func (p *pass) awaitFor(a *plan.Action) time.Duration {
	delay := watchDelay
	for n := p.memory.Tries(a); n > 0 && delay < p.Config.MaxErrorBackoff; n-- {
		delay = min(2*delay, max(watchDelay, p.Config.MaxErrorBackoff))
	}
	return delay
}

// remember keeps what the API server made of the desired state of an action.
func (p *pass) remember(ctx context.Context, r *apply.Result, now time.Time) {
	a := r.Action
	switch {
	case r.Err == nil && r.Wrote && (a.Verb == plan.VerbDelete || a.Verb == plan.VerbRecreate):
		if a.Verb == plan.VerbRecreate {
			p.memory.Recreate(a.Want)
		}
		p.confirmLater()
		return
	case r.Err == nil && r.Wrote && a.Verb == plan.VerbRelease:
		return
	case a.Verb == plan.VerbRecreate && r.Err != nil && !apierror.OnlyRefusals(r.Err): // its delete may have been carried out
		p.memory.Recreate(a.Want)
		return
	case r.Err != nil, !r.Accepted, r.Live == nil:
		return
	}
	if p.memory.AcceptAction(a, r.Live, r.Rest, now, p.queue.Backoff) {
		p.tellDrift(ctx, a)
	}
	if r.Wrote {
		p.memory.Written(a.Want)
	}
	if len(r.Ignored) > 0 {
		p.tellIgnored(ctx, r)
	}
}

// newerHeld says whether the store already holds a newer state of an action's
// object than the action was planned for, or holds the object no longer.
func (p *pass) newerHeld(a *plan.Action) bool {
	if a.Live == nil {
		return false
	}
	held, ok := p.store.Object(a.Ref)
	return !ok || held.ResourceVersion() != a.Live.ResourceVersion()
}
