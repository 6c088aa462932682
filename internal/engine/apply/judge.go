package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
)

// judge completes the result of an action that failed with r.Err. A conflict means
// that a newer state is awaited, unless there is none. A terminating namespace is
// noted, and is no error. Any other error is described. If the API server has
// refused the write, the error becomes an apierror.RefusedError.
func (x *Executor) judge(ctx context.Context, a *plan.Action, r Result) Result {
	err := r.Err
	var taken *NameTakenError
	var kept *keptError
	isKept := errors.As(err, &kept)
	missing := apierrors.IsNotFound(err) && a.Verb != plan.VerbCreate // else the namespace doesn't exist
	_, refused := errors.AsType[*apierror.RefusedError](err)
	outdated := !isKept && !refused && (missing || apierrors.IsConflict(err))
	switch {
	case errors.As(err, &taken):
		r.Err = &apierror.RefusedError{Err: err}
		return r
	case outdated && (!a.Repeated || x.changed(ctx, a)):
		return Result{Action: a, Await: true}
	case apierror.IsNamespaceTerminating(err):
		x.foundTerminating(a.Ref.Key.Namespace)
		return Result{Action: a}
	}
	r.answer = err
	if rule := x.ownerRule(a, err); rule != "" {
		err = &apierror.ForbiddenError{Err: err, Rule: rule}
	}
	r.Err = x.adviseOwner(a, err, describe(a, err))
	if fields := x.immutableFields(ctx, a, err, r.creatable); len(fields) > 0 {
		r.Err = describeImmutable(a, err, fields)
	}
	if refused || outdated || isKept || apierrors.IsAlreadyExists(err) || apierror.IsNo(err) {
		r.Err = &apierror.RefusedError{Err: r.Err}
	}
	return r
}

// changed says whether the child of an action is no longer as the pass saw it. Then a
// conflict is what it says. An admission webhook may answer with the same words for
// reasons of its own, and then no newer state will ever arrive.
func (x *Executor) changed(ctx context.Context, a *plan.Action) bool {
	live, err := x.Client.Get(ctx, a.Kind, a.Ref.Key)
	switch {
	case apierror.IsMissing(err, a.Ref.Key.Name):
		return a.Live != nil
	case err != nil:
		return false
	case a.Live == nil:
		return true
	}
	return live.UID() != a.Live.UID() || live.ResourceVersion() != a.Live.ResourceVersion()
}
