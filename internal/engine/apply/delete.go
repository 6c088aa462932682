package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// maxDeletes bounds how often a delete is sent for a child that others keep changing.
const maxDeletes = 5

// DeleteChild deletes a child of the parent as it was seen, or as others have changed it since, as
// long as it is a child. It returns what Client.Delete does. A conflict means that it isn't a child any more, that
// others change it too often, or that a webhook has refused the delete.
//
// Who takes a child from its parent wants to keep it, and the watches may not have told of that yet. So does
// the garbage collector for a parent that is deleted with orphan propagation: at the end nothing in the parent
// says so any more.
func DeleteChild(ctx context.Context, c *client.Client, s *catalog.Settings, k *catalog.Kind, parent, seen *resource.Resource) (*resource.Resource, error) {
	for tries := 1; ; tries++ {
		left, err := c.Delete(ctx, k, seen.Key(), seen.UID(), seen.ResourceVersion())
		if !apierrors.IsConflict(err) || tries == maxDeletes {
			return left, err
		}
		now, readErr := c.Get(ctx, k, seen.Key())
		if readErr != nil || now.UID() != seen.UID() || now.ResourceVersion() == seen.ResourceVersion() || !IsChild(s, parent, now) {
			return nil, err
		}
		seen = now
	}
}

// delete deletes the very child that the pass saw, by its UID. If the API server has
// once answered so and still had the child, the answer alone isn't believed.
func (x *Executor) delete(ctx context.Context, a *plan.Action) Result {
	contradicted := x.Store.Contradicted(a.Live.UID())
	left, err := DeleteChild(ctx, x.Client, x.Settings, a.Kind, x.Parent, a.Live)
	if err == nil && left == nil && contradicted {
		err = x.stillThere(ctx, a)
	}
	if err != nil {
		return Result{Err: err}
	}
	return Result{Wrote: true, Live: left}
}

// stillThere returns an error if the child of an action, which was deleted, is there and
// isn't being deleted.
func (x *Executor) stillThere(ctx context.Context, a *plan.Action) error {
	live, err := x.Client.Get(ctx, a.Kind, a.Ref.Key)
	switch {
	case apierror.IsMissing(err, a.Ref.Key.Name):
		return nil
	case err != nil:
		return err
	case live.UID() == a.Live.UID() && !live.IsDeleting():
		x.contradicts(live)
		return &apierror.RefusedError{Err: errStillThere}
	}
	return nil
}

// release takes finalizers off a child that is being deleted. With the last of them
// the child goes, unless it still has time to end.
func (x *Executor) release(ctx context.Context, a *plan.Action) Result {
	body, err := plan.ReleasePatch(a)
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	if err != nil {
		return Result{Err: err}
	}
	if live.ResourceVersion() == a.Live.ResourceVersion() { // nothing was stored any more
		return Result{Wrote: true}
	}
	return Result{Wrote: true, Live: live}
}
