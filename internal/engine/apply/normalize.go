package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// Where nothing is remembered of a child, dry runs tell which differences are
// only the server's way of writing what is desired.

// verify sends the update that a child seems to need as a dry run. Fields that
// come back as they are were normalized by the server when it accepted the same
// desired state. Only what is left is a difference.
func (x *Executor) verify(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	rest, err := x.normalized(ctx, a, nil)
	if len(apierror.ImmutableFields(err)) > 0 && len(a.Diffs) > 1 {
		rest, err = x.normalizedOneByOne(ctx, a)
	}
	if err != nil {
		return Result{Err: err}, nil
	}
	return Result{}, plan.Normalized{Rest: rest}
}

// normalized returns the fields in which the server's answer to a dry run
// differs from the desired state. Paths in ignore keep the live values.
func (x *Executor) normalized(ctx context.Context, a *plan.Action, ignore []string) ([]merge.Difference, error) {
	answer, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent, ignore...), true)
	switch {
	case err == nil:
		return a.Kind.Comparison.Without(ignore).Compare(answer.Unstructured().Object, a.Want.Object(), nil), nil
	case apierror.RefusesDryRun(err):
		return a.Diffs, nil // then the hash in the mark has to do
	case len(apierror.ImmutableFields(err)) > 0 && len(a.Diffs)-len(ignore) == 1:
		return a.Diffs, nil // nobody could have changed it since the creation
	}
	return nil, err
}

// normalizedOneByOne tries each differing field on its own, so that one that
// can't be changed doesn't hide another that was.
func (x *Executor) normalizedOneByOne(ctx context.Context, a *plan.Action) ([]merge.Difference, error) {
	var rest []merge.Difference
	for i, diff := range a.Diffs {
		var others []string
		for j, other := range a.Diffs {
			if j != i {
				others = append(others, other.Path)
			}
		}
		found, err := x.normalized(ctx, a, others)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if f.Path == diff.Path {
				rest = append(rest, f)
			}
		}
	}
	return rest, nil
}

// recreate deletes a child that is to be created again, unless the update that
// it seems to need would change nothing. A new build of the operator may spell
// the same differently, or leave out what is a default.
func (x *Executor) recreate(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	answer, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent), true)
	switch {
	case err != nil && !apierror.IsRefusal(err) && !apierror.RefusesDryRun(err) && !apierrors.IsForbidden(err):
		return Result{Err: err}, nil
	case err == nil && plan.ChangesNothing(x.Settings, a.Live, answer):
		return Result{}, plan.Unchanged{}
	case len(apierror.ImmutableFields(err)) > 0 && a.Unknown:
		if rest, ok := x.asCreated(ctx, a); ok {
			return Result{}, plan.Normalized{Rest: rest}
		}
	}
	switch {
	case !x.Config.DryRun:
		return x.delete(ctx, a), nil
	case err == nil:
		return left(a, plan.Effects(x.Settings, a.Kind, a.Live, answer)), nil
	}
	return left(a, plan.FieldsOf(a)), nil
}

// unlessCreatedSo returns the result of a write, unless it is the refusal to
// change a field that may differ only by what admission has made of it when the
// child was created. Then it returns what creating the child would make of the
// desired state.
func (x *Executor) unlessCreatedSo(ctx context.Context, a *plan.Action, r Result) (Result, plan.Finding) {
	if !a.Unknown || len(apierror.ImmutableFields(r.Err)) == 0 {
		return r, nil
	}
	rest, ok := x.asCreated(ctx, a)
	if !ok {
		return r, nil
	}
	return Result{}, plan.Normalized{Rest: rest}
}

// asCreated returns the fields in which a child would differ from the desired
// state if it were created now, by a dry run under another name. It returns
// false if that can't be found out, or explains no difference.
func (x *Executor) asCreated(ctx context.Context, a *plan.Action) ([]merge.Difference, bool) {
	answer, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.TrialBody(x.Settings, a.Want, x.Parent))
	if err != nil {
		return nil, false
	}
	rest := a.Kind.Comparison.Compare(answer, a.Want.Object(), nil)
	return rest, plan.ExplainsAny(a, rest)
}
