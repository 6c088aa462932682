package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// request makes the requests of one action. It returns either a result (and nil),
// or a finding from which another action follows (and an empty result).
func (x *Executor) request(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	switch a.Verb {
	case plan.VerbCreate:
		return x.create(ctx, a)
	case plan.VerbUpdate:
		return x.unlessCreatedSo(ctx, a, x.update(ctx, a))
	case plan.VerbApply:
		r, found := x.apply(ctx, a)
		if found != nil {
			return r, found
		}
		return x.unlessCreatedSo(ctx, a, r)
	case plan.VerbMark:
		return x.mark(ctx, a), nil
	case plan.VerbRecreate:
		return x.recreate(ctx, a)
	case plan.VerbDelete:
		return x.delete(ctx, a), nil
	case plan.VerbVerify:
		return x.verify(ctx, a)
	}
	return Result{Err: fmt.Errorf("unknown verb %q", a.Verb)}, nil
}

// written returns the result of a write of a child, and puts the API server's
// answer, live, into the store. If the answer has the resourceVersion of before,
// the API server saw no difference and has persisted nothing.
func (x *Executor) written(a *plan.Action, live *resource.Resource, err error) Result {
	if err != nil {
		return Result{Err: err}
	}
	x.Store.Wrote(live)
	changed := a.Live == nil || a.Live.ResourceVersion() != live.ResourceVersion()
	return Result{Live: live, Wrote: changed, Redundant: !changed, Accepted: true}
}

// create creates a child. If an object of that name exists, claim goes on.
func (x *Executor) create(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	live, err := x.Client.Create(ctx, a.Kind, a.Ref.Key.Namespace, plan.CreateBody(x.Settings, a.Want, x.Parent))
	if apierrors.IsAlreadyExists(err) {
		return x.claim(ctx, a)
	}
	return x.written(a, live, err), nil
}

// update replaces a child under its resourceVersion.
func (x *Executor) update(ctx context.Context, a *plan.Action) Result {
	live, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent), false)
	return x.written(a, live, err)
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

// delete deletes the very child that the pass saw, by its UID.
func (x *Executor) delete(ctx context.Context, a *plan.Action) Result {
	left, err := x.Client.Delete(ctx, a.Kind, a.Ref.Key, a.Live.UID())
	if err != nil {
		return Result{Err: err}
	}
	x.Store.WroteDelete(a.Live, left)
	return Result{Wrote: true, Live: left}
}

// apply sends a server-side apply. If the apply is to remove fields, takeFields
// first makes them fields that an apply can remove.
//
// An apply can't do all that an update can. It can't remove a field that nobody
// owns, such as the default source of a volume that is given another source. If
// the API server refuses the apply as invalid, or can't take the object by an
// apply, an update takes its place.
func (x *Executor) apply(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	if !a.Owned {
		merged := plan.UpdateBody(x.Settings, a, x.Parent)
		if merge.Lacks(merged, a.LiveObject()) {
			taken, known, err := x.takeFields(ctx, a, merged)
			switch {
			case err != nil:
				return Result{Err: err}, nil
			case !known:
				return x.update(ctx, a), nil
			case taken != nil:
				return Result{}, plan.Owned{Live: taken}
			}
		}
	}
	body, err := client.BodyOf(plan.ApplyBody(x.Settings, a, x.Parent))
	if err != nil {
		return Result{Err: err}, nil
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.ApplyYAMLPatchType, body)
	if apierrors.IsInvalid(err) || apierror.IsNoApply(err) {
		if r := x.update(ctx, a); r.Err == nil {
			return r, nil
		}
	}
	return x.written(a, live, err), nil
}

// judge completes the result of an action that failed with r.Err. A conflict means
// that a newer state is awaited. A terminating namespace is noted, and is no error.
// Any other error is described, and a refusal that only another desired or live
// state can change becomes an apierror.RefusedError.
func (x *Executor) judge(a *plan.Action, r Result) Result {
	err := r.Err
	var taken *NameTakenError
	switch {
	case errors.As(err, &taken):
		return r
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		if a.Verb == plan.VerbCreate && apierrors.IsNotFound(err) {
			break // the namespace doesn't exist
		}
		return Result{Action: a, Await: true}
	case apierror.IsNamespaceTerminating(err):
		x.foundTerminating(a.Ref.Key.Namespace)
		return Result{Action: a}
	}
	if rule := x.ownerRule(a.Kind, err); rule != "" {
		err = &apierror.ForbiddenError{Err: err, Rule: rule}
	}
	r.Err = describe(a, err)
	if apierror.IsRefusal(err) {
		r.Err = &apierror.RefusedError{Err: r.Err}
	}
	return r
}
