package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// disown changes the managedFields of a child, so that the operator no longer owns
// the fields that are left to others. Their values stay. While the operator owned a
// field, its next apply would remove the field, and the apply of another manager
// would be refused as a conflict.
func (x *Executor) disown(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	held, err := x.managedFields(ctx, a, &fieldsOnce{})
	if err != nil {
		return Result{Err: err}, nil
	}
	entries, err := merge.Disown(held, x.Config.Name, a.Want.Left())
	if err != nil {
		return Result{Err: fmt.Errorf("managedFields: %w", err)}, nil
	}
	if entries == nil {
		return Result{}, plan.Disowned{Live: a.Live}
	}
	patch, err := plan.ManagedFieldsPatch(entries, a.Live.ResourceVersion())
	if err != nil {
		return Result{Err: fmt.Errorf("managedFields: %w", err)}, nil
	}
	disowned, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.JSONPatchType, patch)
	if err != nil {
		return Result{Err: err}, nil
	}
	return Result{}, plan.Disowned{Live: disowned}
}
