package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// apply brings a child in line by one write. That is a server-side apply, if an
// apply makes of the child what an update would. Else it is that update: an apply
// can't remove what an update has set, for one. The update has managedFields, too,
// so that they tell the same as after an apply.
func (x *Executor) apply(ctx context.Context, a *plan.Action) Result {
	var held fieldsOnce
	object, update, err := x.applyOrUpdate(ctx, a, &held)
	if err != nil {
		return Result{Err: err}
	}
	if object != nil {
		r := x.sendApply(ctx, a, object)
		if r.Err == nil {
			x.Lessons.learn(update.in, update.kept, lessonKept)
		}
		if !apierror.IsNoApply(r.Err) {
			return r
		}
		if update, err = x.owning(ctx, a, update, &held); err != nil {
			return Result{Err: err}
		}
	}
	live, err := x.sendRemake(ctx, a, update, false)
	return x.written(a, live, err)
}

// sendApply sends a server-side apply.
func (x *Executor) sendApply(ctx context.Context, a *plan.Action, object map[string]any) Result {
	body, err := client.AppliedBodyOf(object)
	if err != nil {
		return Result{Err: err}
	}
	live, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.ApplyYAMLPatchType, body)
	return x.written(a, live, err)
}

// applyOrUpdate returns the body of the apply that brings a child in line, nil if no
// apply does. It returns the update that makes the same of the child, too. If there
// is no apply, the update has managedFields.
func (x *Executor) applyOrUpdate(ctx context.Context, a *plan.Action, held *fieldsOnce) (apply map[string]any, update remake, err error) {
	merged := plan.UpdateBody(x.Settings, a, x.Parent)
	if update, err = x.remake(ctx, a, merged, held); err != nil {
		return nil, update, err
	}
	application := plan.ApplyBody(x.Settings, a, x.Parent, merged)
	if application != nil && jsonvalue.Equal(update.body, merged) { // else an apply would keep what is to be made anew
		if application.Sure {
			return application.Body, update, nil
		}
		owned, err := x.ownership(ctx, a, held)
		if err != nil {
			return nil, update, err
		}
		if !owned.Removes(application.Body, merged) {
			return application.Body, update, nil
		}
	}
	update, err = x.owning(ctx, a, update, held)
	return nil, update, err
}

// owning returns an update with the managedFields that it shall lead to.
func (x *Executor) owning(ctx context.Context, a *plan.Action, r remake, held *fieldsOnce) (remake, error) {
	owned, err := x.ownership(ctx, a, held)
	if err != nil {
		return r, err
	}
	now := metav1.Now()
	for _, body := range []*map[string]any{&r.body, &r.fallback} {
		if *body == nil {
			continue
		}
		if *body, err = plan.OwningBody(x.Settings, a, x.Parent, *body, owned, now); err != nil {
			return r, fmt.Errorf("managedFields: %w", err)
		}
	}
	return r, nil
}

// ownership returns what the managedFields of a child say, as managedFields does.
func (x *Executor) ownership(ctx context.Context, a *plan.Action, held *fieldsOnce) (*merge.Ownership, error) {
	entries, err := x.managedFields(ctx, a, held)
	if err != nil {
		return nil, err
	}
	owned, err := merge.ReadOwnership(entries, x.Config.Name)
	if err != nil {
		return nil, fmt.Errorf("managedFields: %w", err)
	}
	return owned, nil
}
