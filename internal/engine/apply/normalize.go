package apply

import (
	"context"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// Where nothing is remembered of a child, dry runs tell which differences are no
// more than the API server's way of writing the desired state (normalization).

// unlessCreatedSo returns r, the result of a write, unless r is the refusal to
// change an immutable field of a child of which nothing is remembered. Such a field
// may differ only by what admission made of it when the child was created. Then
// unlessCreatedSo returns what a creation would make of the desired state now. If that
// can't be tried, for a quota that is used up say, the mark and managedFields may tell.
func (x *Executor) unlessCreatedSo(ctx context.Context, a *plan.Action, r Result) (Result, plan.Finding) {
	if !a.Unknown || len(apierror.ImmutableFields(r.Err)) == 0 {
		return r, nil
	}
	made, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.TrialBody(x.Settings, a.Want, x.Parent))
	if err != nil {
		if found, known, _ := x.asGiven(ctx, a); known {
			return Result{}, found
		}
		return r, nil
	}
	rest := a.Kind.Comparison.Compare(made, a.Want.Object(), nil)
	if !plan.ExplainsAny(a, rest) {
		r.creatable = true
		return r, nil
	}
	return Result{}, plan.Normalized{Rest: rest}
}

// asGiven returns the finding that a child differs only by what the API server, or a
// webhook, made of what the child was given: see plan.Given. It returns false if that
// isn't known.
func (x *Executor) asGiven(ctx context.Context, a *plan.Action) (plan.Finding, bool, error) {
	given, ok := plan.GivenTo(x.Settings, a)
	if !ok {
		return nil, false, nil
	}
	entries, err := x.readFields(ctx, a.Kind, a.Live)
	if err != nil {
		return nil, false, err
	}
	found, ok := given.Held(merge.FieldsOf(entries, x.Config.Name))
	return found, ok, nil
}
