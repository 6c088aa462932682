package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// Where nothing is remembered of a child, dry runs tell which differences are no
// more than the API server's way of writing the desired state (normalization).

// verify sends, as a dry run, the update that a child seems to need. A field that
// comes back with its live value is one that the API server normalizes. The finding
// names all fields that the API server normalizes.
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

// normalized returns the fields in which the API server's answer to a dry run
// differs from the desired state. Fields at the paths in ignore are neither sent
// nor compared.
func (x *Executor) normalized(ctx context.Context, a *plan.Action, ignore []string) ([]merge.Difference, error) {
	answer, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent, ignore...), true)
	switch {
	case err == nil:
		return a.Kind.Comparison.Without(ignore).Compare(answer.Unstructured().Object, a.Want.Object(), nil), nil
	case apierror.RefusesDryRun(err):
		return a.Diffs, nil // by its mark the child was given this desired state, so all differences pass for normalized
	case len(apierror.ImmutableFields(err)) > 0 && len(a.Diffs)-len(ignore) == 1:
		return a.Diffs, nil // the one field is immutable: nobody could have changed it since the creation
	}
	return nil, err
}

// normalizedOneByOne is normalized for each differing field on its own. So an
// immutable field, for which the API server refuses the whole update, doesn't hide
// that somebody has changed another field.
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

// recreate deletes a child that a later pass creates anew. Before that, a dry run of
// the update tells whether the child would change at all. It may not: a new build
// of the operator may spell the same state differently, or leave out a default.
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

// unlessCreatedSo returns r, the result of a write, unless r is the refusal to
// change an immutable field of a child of which nothing is remembered. Such a field
// may differ only by what admission made of it when the child was created. Then
// unlessCreatedSo returns what a creation would make of the desired state now.
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

// asCreated returns the fields in which the child would differ from the desired
// state if it were created now. It creates the child under another name, as a dry
// run. It returns false if the dry run fails, or explains no difference of a.
func (x *Executor) asCreated(ctx context.Context, a *plan.Action) ([]merge.Difference, bool) {
	answer, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.TrialBody(x.Settings, a.Want, x.Parent))
	if err != nil {
		return nil, false
	}
	rest := a.Kind.Comparison.Compare(answer, a.Want.Object(), nil)
	return rest, plan.ExplainsAny(a, rest)
}
