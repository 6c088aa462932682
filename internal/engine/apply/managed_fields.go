package apply

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// takeFields makes the operator's applies the owner, by managedFields, of the
// fields that merged lacks and that its updates had set, so that an apply
// without them removes them. Everything else that managedFields say of those
// updates stays, since defaults and what webhooks have injected are in it too.
// It returns the object if it was changed, and false if managedFields say
// nothing at all.
func (x *Executor) takeFields(ctx context.Context, a *plan.Action, merged map[string]any) (taken *resource.Resource, known bool, err error) {
	live, err := x.Client.ManagedFields(ctx, a.Kind, a.Ref.Key)
	if err != nil {
		return nil, false, err
	}
	if live.UID != a.Live.UID() || live.ResourceVersion != a.Live.ResourceVersion() {
		return nil, false, apierrors.NewConflict(a.Kind.GVR.GroupResource(), a.Ref.Key.Name, errors.New("it has changed"))
	}
	if len(live.ManagedFields) == 0 {
		return nil, false, nil
	}
	entries, err := merge.TakeEntries(live.ManagedFields, x.Config.Name, a.LiveObject(), merged, metav1.Now())
	if err != nil {
		return nil, false, fmt.Errorf("managedFields: %w", err)
	}
	if entries == nil {
		return nil, true, nil
	}
	patch, err := plan.ManagedFieldsPatch(entries, live.ResourceVersion)
	if err != nil {
		return nil, false, fmt.Errorf("managedFields: %w", err)
	}
	taken, err = x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.JSONPatchType, patch)
	if err != nil {
		return nil, false, err
	}
	x.Store.Wrote(taken)
	return taken, true, nil
}
