package apply

import (
	"context"
	"slices"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
)

// A refused write may hold back the very delete that would cure it: the new Service
// wants the port of the old one.

// deleteObstacles carries out those deletes that are held back by a write that was
// refused because of them, and returns the others. Before that, a dry run shows
// that nothing else is wrong with the write.
func (r *run) deleteObstacles(ctx context.Context, p *plan.Plan, held []plan.Action) (rest []plan.Action) {
	rest = held
	if slices.ContainsFunc(r.attempts, func(a attempt) bool { return a.result.ShownNext }) {
		return rest
	}
	for i := range r.attempts {
		a := &r.attempts[i]
		if len(rest) == 0 || ctx.Err() != nil {
			return rest
		}
		if a.left || !a.refused() || a.action.Verb == plan.VerbDelete || a.result.Action.Verb == plan.VerbAdopt {
			continue // neither wants what another child has
		}
		others := rest
		if r.Config.DryRun {
			others = slices.Concat(rest, p.Writes)
		}
		found, fields := plan.Obstacles(a.result.Action, a.result.answer, others)
		if len(found) == 0 || !r.wouldBeAccepted(ctx, a.result.Action, fields, a.result.answer) {
			continue
		}
		if r.Config.DryRun {
			*a = attempt{action: a.action, result: r.foreseen(a.result.Action)}
		}
		rest = slices.DeleteFunc(slices.Clone(rest), func(d plan.Action) bool {
			return slices.ContainsFunc(found, func(f plan.Action) bool { return f.Ref == d.Ref })
		})
		r.do(ctx, slices.DeleteFunc(found, func(f plan.Action) bool { return f.Verb != plan.VerbDelete }))
	}
	return rest
}

// wouldBeAccepted says whether a would be accepted without its values in these
// fields, by a dry run. A quota is looked at when all else is found right, so
// without fields there is nothing to ask.
func (r *run) wouldBeAccepted(ctx context.Context, a *plan.Action, fields []string, answer error) bool {
	if len(fields) == 0 {
		return true
	}
	body := plan.FreedBody(r.Settings, a, r.Parent, fields, answer)
	var err error
	if a.Live == nil {
		_, err = r.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, body)
	} else {
		_, err = r.Client.Update(ctx, a.Kind, a.Ref.Key, "", body, true)
	}
	return err == nil || apierror.RefusesDryRun(err)
}

// foreseen returns what a dry run foresees of an action that will be accepted once
// an obstacle is gone.
func (r *run) foreseen(a *plan.Action) Result {
	out := left(a, foreseenFields(a))
	out.Action = a
	return out
}
