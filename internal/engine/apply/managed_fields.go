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

// takeFields changes the managedFields of a child, so that a server-side apply of
// the desired state removes the fields that merged lacks. An apply removes only
// fields that are owned by an earlier apply. So the fields that the operator's
// updates had set, and that merged lacks, become those of its applies. All other
// fields of those updates stay theirs: defaults are among them, and what webhooks
// have injected.
//
// takeFields returns the child if it was changed, else nil. known is false if the
// child has no managedFields at all.
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
