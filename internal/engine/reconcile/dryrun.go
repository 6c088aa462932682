package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
)

// In a dry run, a pass notes what it would change instead of writing it.

// changeOfChild returns the change that a rehearsed action would make.
func (p *pass) changeOfChild(r *apply.Result) plan.Change {
	v := r.Would
	if v == plan.VerbApply {
		v = plan.VerbUpdate
	}
	return plan.Change{Parent: p.parent.Key(), Object: r.Action.Ref.Key, Type: r.Action.Ref.Type, Verb: string(v), Fields: r.Fields, Unsure: r.Untold}
}

// queuedErrors returns why updates would fail that a rollout makes later, as far as a dry run has
// tried them.
func (p *pass) queuedErrors() error {
	var errs []error
	for i := range p.queued {
		if err := p.queued[i].Err; err != nil {
			errs = append(errs, err)
		}
	}
	return apierror.Join(errs)
}

// foreseeWaiting notes the children that would be created or updated once others are ready, or once the schema of their type
// is read.
func (p *pass) foreseeWaiting(planned *plan.Plan) {
	creation := func(want *plan.Desired, ref object.Ref, waits string, unsure bool) {
		p.foreseen = append(p.foreseen, plan.Change{
			Parent: p.parent.Key(), Object: ref.Key, Type: ref.Type, Verb: string(plan.VerbCreate), Fields: plan.CreationFields(want), Waits: waits, Unsure: unsure,
		})
	}
	namespaces := map[string]object.Ref{}
	for i := range planned.Gated {
		g := &planned.Gated[i]
		creation(g.Want, g.Ref(), g.String(), g.Taken)
		if p.Types.Of(g.Ref().Type).IsNamespace() {
			namespaces[g.Ref().Key.Name] = g.Ref()
		}
	}
	for i := range p.results {
		r := &p.results[i]
		if waitsFor, ok := namespaces[r.Action.Ref.Key.Namespace]; ok && r.HeldBack && r.Action.Verb == plan.VerbCreate && !r.Action.Sought {
			creation(r.Action.Want, r.Action.Ref, "waits for "+waitsFor.String(), false)
		}
	}
	for i := range planned.Pending {
		a := &planned.Pending[i]
		verb, fields := plan.ForeseePending(a)
		p.foreseen = append(p.foreseen, plan.Change{
			Parent: p.parent.Key(), Object: a.Ref.Key, Type: a.Ref.Type, Verb: verb, Fields: fields, Waits: "waits for the schema of " + a.Ref.Type.String(), Unsure: true,
		})
	}
	for i := range p.queued {
		r, q := &p.queued[i], &planned.Queued[i]
		if r.Await { // it has changed since, and what becomes of it isn't known
			r.Skipped, r.Would, r.Fields, r.Untold = true, q.Verb, plan.FieldsOf(&q.Action), true
		}
		if r.Skipped && r.Would != plan.VerbMark {
			change := p.changeOfChild(r)
			change.Waits = q.String()
			p.foreseen = append(p.foreseen, change)
		}
	}
}

// changeOfParent returns a change of the parent itself.
func (p *pass) changeOfParent(verb string, fields []plan.FieldChange) plan.Change {
	return plan.Change{Parent: p.parent.Key(), Object: p.parent.Key(), Type: p.parent.Type(), Verb: verb, Fields: fields}
}

// foreseesChildren says whether the pass has foreseen a change of a child that it would
// make itself: one that waits doesn't hold the status back.
func (p *pass) foreseesChildren() bool {
	return slices.ContainsFunc(p.foreseen, func(c plan.Change) bool { return c.Type != p.parent.Type() && c.Waits == "" })
}

// foreseeFinalizers notes how the parent's finalizers would change. change returns
// the new list for an old one.
func (p *pass) foreseeFinalizers(change func([]string) []string) {
	held := p.parent.Finalizers()
	want := change(slices.Clone(held))
	if slices.Equal(held, want) {
		return
	}
	p.foreseen = append(p.foreseen, p.changeOfParent("update", []plan.FieldChange{{Path: "metadata.finalizers", Live: jsonList(held), Desired: jsonList(want)}}))
}

// tryFinalizers is foreseeFinalizers after a dry run, which tells whether the API server takes the change.
func (p *pass) tryFinalizers(ctx context.Context, change func([]string) []string) error {
	held := p.parent.Finalizers()
	want := change(slices.Clone(held))
	if slices.Equal(held, want) {
		return nil
	}
	untold := false
	if p.supposed == nil { // else the API server has another parent
		patch, err := plan.FinalizerPatch(p.parent, want, p.Config.ParentSelector != "")
		if err != nil {
			return err
		}
		_, err = p.client.DryPatch(ctx, p.Types.Parent, p.parent.Key(), types.JSONPatchType, patch)
		switch untold = apierror.RefusesDryRun(err); {
		case untold, err == nil:
		case apierrors.IsNotFound(err), apierrors.IsInvalid(err) && !p.parentUnchanged(ctx):
			return p.rereadParent(ctx)
		default:
			return fmt.Errorf("%s: finalizer: %w", object.RefOf(p.parent), err)
		}
	}
	p.foreseeFinalizers(change)
	p.foreseen[len(p.foreseen)-1].Unsure = untold
	return nil
}

// jsonList returns a list of strings as a JSON value, nil if it is empty.
func jsonList(list []string) any {
	if len(list) == 0 {
		return nil
	}
	out := make([]any, 0, len(list))
	for _, item := range list {
		out = append(out, item)
	}
	return out
}

// foreseeStatus notes how the parent's status would change from live. The API
// server says by a dry run what it would make of want.
func (p *pass) foreseeStatus(ctx context.Context, want, live any) error {
	if p.supposed != nil && p.supposed.isNew { // there is no object yet whose status could be tried
		p.foreseen = append(p.foreseen, p.changeOfParent(string(plan.VerbUpdate), plan.StatusEffects(live, want)))
		return nil
	}
	answer, err := p.client.Update(ctx, p.Types.Parent, p.parent.Key(), "status", p.withStatus(want), true)
	made := want
	untold := apierror.RefusesDryRun(err)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return p.rereadParent(ctx)
	case untold:
	case err != nil:
		return fmt.Errorf("%s: status: %w", object.RefOf(p.parent), err)
	default:
		made, _ = answer.Field("status")
		made = jsonvalue.NullFree(made)
	}
	if jsonvalue.Equal(live, made) {
		return nil
	}
	change := p.changeOfParent(string(plan.VerbUpdate), plan.StatusEffects(live, made))
	change.Unsure = untold
	p.foreseen = append(p.foreseen, change)
	return nil
}
