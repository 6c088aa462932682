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

// request makes the requests of one action. If they find out something from
// which another action follows, it returns that instead of a result.
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

// written takes the answer to a write of a child. If the answer has the
// resourceVersion from before, the server saw no difference and has persisted
// nothing.
func (x *Executor) written(a *plan.Action, live *resource.Resource, err error) Result {
	if err != nil {
		return Result{Err: err}
	}
	x.Store.Wrote(live)
	changed := a.Live == nil || a.Live.ResourceVersion() != live.ResourceVersion()
	return Result{Live: live, Wrote: changed, Redundant: !changed, Accepted: true}
}

func (x *Executor) create(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	live, err := x.Client.Create(ctx, a.Kind, a.Ref.Key.Namespace, plan.CreateBody(x.Settings, a.Want, x.Parent))
	if apierrors.IsAlreadyExists(err) {
		return x.claim(ctx, a)
	}
	return x.written(a, live, err), nil
}

func (x *Executor) update(ctx context.Context, a *plan.Action) Result {
	live, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent), false)
	return x.written(a, live, err)
}

func (x *Executor) mark(ctx context.Context, a *plan.Action) Result {
	body, err := plan.MarkPatch(x.Settings, a)
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	return x.written(a, live, err)
}

func (x *Executor) delete(ctx context.Context, a *plan.Action) Result {
	left, err := x.Client.Delete(ctx, a.Kind, a.Ref.Key, a.Live.UID())
	if err != nil {
		return Result{Err: err}
	}
	x.Store.WroteDelete(a.Live, left)
	return Result{Wrote: true, Live: left}
}

// apply sends a server-side apply. An apply can't remove a field that nobody
// owns, such as the default source of a volume that is given another one, and
// can't say all that an update can. Where it is refused for that, an update
// takes its place.
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

// judge decides what an API error means for the pass.
func (x *Executor) judge(a *plan.Action, r Result) Result {
	err := r.Err
	var taken *NameTakenError
	switch {
	case errors.As(err, &taken):
		return r
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		if a.Verb == plan.VerbCreate && apierrors.IsNotFound(err) {
			break // the namespace isn't there
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
