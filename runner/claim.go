package runner

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// claim decides what to do about an object that already exists under the name
// of a child to be created: it may be ours with its labels removed by hand, be
// held by a parent that is going away, be free to adopt, or be foreign.
func (x *executor) claim(ctx context.Context, a *action) result {
	live, err := x.client.get(ctx, a.kind, a.ref.Key)
	if err != nil {
		return result{err: err} // gone again: the next pass creates it
	}
	controller := controllerOf(live)
	tracked, _ := live.Label(x.cfg.TrackingLabel)
	owned, _ := live.Label(x.cfg.OwnershipLabel)
	ours := tracked == string(x.parent.UID()) && owned == x.cfg.Name
	controlled := controller != nil && controller.UID == x.parent.UID()
	free := controller == nil && (ours || a.kind.child.Adopt)
	switch {
	case live.IsDeleting() && (owned == x.cfg.Name || controlled || free):
		if owned == x.cfg.Name && tracked != "" {
			x.store.wrote(live) // watched, so its going will be noticed
		}
		return result{await: true, parked: x.store.await(a.ref, x.parent.UID())}
	case controlled && ours:
		// An earlier create of ours succeeded without our learning of it.
		x.store.wrote(live)
		return result{live: live, await: true, wrote: true}
	case controlled && owned != "" && owned != x.cfg.Name:
		// Another operator has the same parents, and wants the same child.
		return result{err: x.nameTaken(a, "operator "+owned+" manages it")}
	case controlled:
		return x.take(ctx, a, live)
	case free:
		return x.takeIfParentLives(ctx, a, live)
	case controller != nil && owned == x.cfg.Name && tracked == string(controller.UID):
		going, err := x.goingAway(ctx, live, controller)
		if err != nil {
			return result{err: err}
		}
		if going {
			return result{await: true, parked: x.store.await(a.ref, x.parent.UID())}
		}
	}
	holder := ""
	if controller != nil {
		holder = "its controller is " + controller.Kind + " " + controller.Name
	}
	return result{err: x.nameTaken(a, holder)}
}

// nameTaken is an error. If the holder is a child of this operator too, its
// going is a change for this parent.
func (x *executor) nameTaken(a *action, holder string) error {
	x.store.await(a.ref, x.parent.UID())
	return &nameTakenError{what: a.ref.String(), operator: x.cfg.Name, holder: holder}
}

// goingAway says whether the parent that controls an object is being deleted
// or already gone.
func (x *executor) goingAway(ctx context.Context, live *resource.Resource, controller *metav1.OwnerReference) (bool, error) {
	if held, ok := x.store.parent(controller.UID); ok {
		return held.IsDeleting(), nil
	}
	key := types.NamespacedName{Namespace: x.parent.Namespace(), Name: controller.Name}
	other, err := x.client.get(ctx, x.types.parent, key)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the parent of %s: %w", refOf(live), err)
	}
	return other.UID() != controller.UID || other.IsDeleting(), nil
}

// takeIfParentLives takes an object without a controller, unless the parent
// is being deleted: then it would be handed to the garbage collector.
func (x *executor) takeIfParentLives(ctx context.Context, a *action, live *resource.Resource) result {
	goes, err := x.pass.readParentGoes(ctx, x.parent)
	switch {
	case err != nil:
		return result{err: err}
	case goes:
		x.store.miss(x.parent.UID()) // what follows it isn't created again either
		return result{await: true}
	}
	return x.take(ctx, a, live)
}

// take sets our labels and owner reference; what else differs is the next
// pass's.
func (x *executor) take(ctx context.Context, a *action, live *resource.Resource) result {
	body, err := x.claimPatch(live, x.parent)
	if err != nil {
		return result{err: err}
	}
	if x.cfg.DryRun {
		return x.rehearseTake(ctx, a, live, body)
	}
	taken, err := x.client.patch(ctx, a.kind, a.ref.Key, types.MergePatchType, body)
	if err != nil {
		return result{err: err}
	}
	x.store.wrote(taken)
	return result{live: taken, wrote: true, claimed: true}
}
