package apply

import (
	"context"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// Where nothing is remembered of a child, dry runs tell which differences are no
// more than the API server's way of writing the desired state (normalization).

// lookAtOwner returns the finding which fields of a child the operator owns.
func (x *Executor) lookAtOwner(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	all, err := x.readFields(ctx, a.Kind, a.Live)
	if err != nil {
		return Result{Err: err}, nil
	}
	var theirs []string
	for _, entry := range all {
		if entry.Manager != x.Config.Name && entry.Subresource != "status" && entry.FieldsV1 != nil {
			theirs = append(theirs, entry.FieldsV1.GetRawString())
		}
	}
	return Result{}, plan.Owned{Entries: merge.FieldsOf(all, x.Config.Name), Theirs: theirs}
}

// tryChosen returns the finding which values the API server, or a webhook, chooses for the new desired
// state of a child. If it can't be tried, they are those of before.
func (x *Executor) tryChosen(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	made, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.ChoiceBody(x.Settings, a, x.Parent))
	if err != nil {
		return Result{}, plan.Normalized{Rest: a.Chosen(nil)}
	}
	chosen, _ := plan.Explained(a.Chosen(nil), a.Kind.Comparison.Compare(made, a.Want.Object(), nil))
	return Result{}, plan.Normalized{Rest: chosen}
}

// afterRejection returns r, the result of a write, unless the write was rejected and something else may be done:
//
//   - It corrects drift: the fields that the API server names keep their live values. If nothing tells whose doing these are, they
//     count as chosen by the API server.
//   - It changes an immutable field of a child of which nothing is remembered. Such a field may differ only by what admission made
//     of it when the child was created. A dry run tells what a creation would make of the desired state now.
func (x *Executor) afterRejection(ctx context.Context, a *plan.Action, r Result) (Result, plan.Finding) {
	fields := apierror.ImmutableFields(r.Err)
	switch {
	case a.Corrects() && apierror.IsRejection(r.Err):
		rejected := a.Reject(x.Settings, apierror.Fields(r.Err), r.Err)
		if a.Untraced() {
			return Result{}, plan.Normalized{Rest: a.Chosen(rejected.Diffs)}
		}
		if !a.Repeated && a.Rejection == nil {
			rejected.Entries, _ = x.readFields(ctx, a.Kind, a.Live) // the report does without
		}
		return Result{}, rejected
	case !a.Unknown || len(fields) == 0:
		return r, nil
	}
	made, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.TrialBody(x.Settings, a.Want, x.Parent))
	if err != nil {
		return r, nil
	}
	rest := a.Kind.Comparison.Compare(made, a.Want.Object(), nil)
	if !plan.ExplainsAny(a, rest) {
		r.creatable = true
		return r, nil
	}
	return Result{}, plan.Normalized{Rest: rest}
}
