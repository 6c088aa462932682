package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// request makes the requests of one action. It returns either a result (and nil),
// or a finding from which another action follows (and an empty result).
func (x *Executor) request(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	switch {
	case a.Ask() != plan.AskNothing:
		return x.ask(ctx, a)
	case a.HandsOver():
		return x.disown(ctx, a)
	}
	switch a.Verb {
	case plan.VerbCreate:
		return x.create(ctx, a)
	case plan.VerbAdopt:
		return x.takeIfParentLives(ctx, a, a.Live)
	case plan.VerbUpdate:
		return x.afterRejection(ctx, a, x.update(ctx, a))
	case plan.VerbApply:
		return x.afterRejection(ctx, a, x.apply(ctx, a))
	case plan.VerbMark:
		return x.afterRejection(ctx, a, x.mark(ctx, a))
	case plan.VerbMend:
		return x.mend(ctx, a), nil
	case plan.VerbRecreate:
		return x.recreate(ctx, a)
	case plan.VerbDelete:
		return x.delete(ctx, a), nil
	case plan.VerbRelease:
		return x.release(ctx, a), nil
	case plan.VerbRetain:
		return x.retain(ctx, a), nil
	}
	return Result{Err: fmt.Errorf("unknown verb %q", a.Verb)}, nil
}

// keep stores a child that was read. It leaves out an object that no watch delivers, such as a child whose
// labels a webhook has taken off: the store would never learn of its end.
func (x *Executor) keep(live *resource.Resource) {
	if x.Watched(live) {
		x.Owner.Changed(x.Store.Read(live), object.RefOf(live))
	}
}

// written returns the result of a write of a child, to which the API server has responded with
// live. If this has the resourceVersion of before, the API server saw no difference and has persisted nothing.
func (x *Executor) written(a *plan.Action, live *resource.Resource, err error) Result {
	if err != nil {
		return Result{Err: err}
	}
	changed := a.Live == nil || a.Live.ResourceVersion() != live.ResourceVersion()
	return Result{Live: live, Wrote: changed, Redundant: !changed, Accepted: true}
}

// create creates a child. If an object of that name exists, claim goes on.
func (x *Executor) create(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	if a.Sought {
		return x.seek(ctx, a)
	}
	live, err := x.Client.Create(ctx, a.Kind, a.Ref.Key, plan.CreateBody(x.Settings, a.Want, x.Parent))
	if apierrors.IsAlreadyExists(err) {
		return x.claim(ctx, a, err)
	}
	return x.written(a, live, ofCreation(err)), nil
}

// ofCreation returns the error of a creation. A conflict is a refusal there, since there is no newer state to wait for.
func ofCreation(err error) error {
	if apierrors.IsConflict(err) {
		return &apierror.RefusedError{Err: err}
	}
	return err
}

// update replaces a child under its resourceVersion.
func (x *Executor) update(ctx context.Context, a *plan.Action) Result {
	body, err := x.remake(ctx, a, plan.UpdateBody(x.Settings, a, x.Parent), &fieldsOnce{})
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.sendRemake(ctx, a, body, false)
	return x.written(a, live, err)
}

// ask makes the request that an action asks for first, which persists nothing.
func (x *Executor) ask(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	switch a.Ask() {
	case plan.AskFields:
		return x.lookAtOwner(ctx, a)
	case plan.AskChoice:
		return x.tryChosen(ctx, a)
	}
	return x.askUpdate(ctx, a)
}

// askUpdate makes a dry run of an update, and returns the finding whether it would change anything that is desired.
func (x *Executor) askUpdate(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	answer, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent), true)
	switch {
	case apierror.RefusesDryRun(err):
		return Result{}, plan.Changing{}
	case err != nil:
		return x.afterRejection(ctx, a, Result{Err: err})
	case plan.ChangesNothing(x.Settings, a.Live, answer):
		return Result{}, plan.Unchanged{}
	case a.LeavesAll(answer): // a webhook changes something else each time
		return Result{}, plan.Normalized{Rest: a.Chosen(a.Diffs)}
	}
	return Result{}, plan.Changing{}
}

// mark brings the mark of a child up to date.
func (x *Executor) mark(ctx context.Context, a *plan.Action) Result {
	body, err := plan.MarkPatch(x.Settings, a)
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	return x.written(a, live, err)
}

// mend brings the owner reference of a child up to date. Whether the child is as
// desired is left to the next pass.
func (x *Executor) mend(ctx context.Context, a *plan.Action) Result {
	body, err := plan.OwnerPatch(x.Settings, a.Live, x.Parent)
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	r := x.written(a, live, err)
	r.Accepted = false
	return r
}

// retain makes a child nobody's, so that it survives its parent. The watch tells of its leave.
func (x *Executor) retain(ctx context.Context, a *plan.Action) Result {
	body, err := plan.RetainPatch(x.Settings, a.Live, x.Parent.UID())
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	if err != nil {
		return Result{Err: err}
	}
	return Result{Wrote: true, Live: live}
}

// contradicts says whether a child that was read contradicts the answer to its delete.
func (x *Executor) contradicts(live *resource.Resource) bool {
	_, contradicts := x.Store.Contradicts(live) // the pass under way is over its parent
	return contradicts
}
