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
