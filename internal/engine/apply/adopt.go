package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// claim deals with an object that already exists under the name of a child to be
// created, by the API server's answer. If the object is gone by then, the next pass
// creates the child. If that finds the same, the answer is an admission webhook's,
// and there is no such object.
func (x *Executor) claim(ctx context.Context, a *plan.Action, answer error) (Result, plan.Finding) {
	r, found := x.claimHeld(ctx, a)
	switch {
	case apierrors.IsNotFound(r.Err) && a.Repeated:
		return Result{Err: answer}, nil
	case apierrors.IsNotFound(r.Err):
		return Result{Await: true}, nil
	}
	return r, found
}

// claimHeld deals with the object that holds the name of a child to be created. It
// may be a child whose labels somebody took off, a child of a parent that is going
// away, an object that is free to be adopted, or an object of somebody else.
func (x *Executor) claimHeld(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	live, err := x.Client.Get(ctx, a.Kind, a.Ref.Key)
	if err != nil {
		return Result{Err: err}, nil
	}
	s := x.standingOf(a, live)
	r, found := x.claimAs(ctx, a, live, s)
	r.Elsewhere = s.owned == x.Config.Name && s.tracked != "" && !x.Shard.Owns(types.UID(s.tracked))
	return r, found
}

// claimAs is claimHeld for an object of this standing.
func (x *Executor) claimAs(ctx context.Context, a *plan.Action, live *resource.Resource, s standing) (Result, plan.Finding) {
	switch x.claimOn(live, &s) {
	case claimEnds:
		x.keep(live)
		return Result{Await: true, Parked: x.Store.Await(live, x.Parent.UID())}, nil
	case claimStillThere:
		return Result{Err: &apierror.RefusedError{Err: errStillThere}, Undeleted: true}, nil
	case claimArrived:
		x.keep(live)
		return Result{Live: live, Await: true, Wrote: true, ShownNext: true}, nil
	case claimControlled:
		return x.takeControlled(ctx, a, live, s)
	case claimFree:
		return x.takeIfParentLives(ctx, a, live)
	}
	return x.leave(ctx, a, live, s), nil
}

// seek takes a child that isn't to be created yet, if it is there and has only lost its labels.
// Whatever else has its name is no child.
func (x *Executor) seek(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	live, err := x.Client.Get(ctx, a.Kind, a.Ref.Key)
	switch {
	case apierror.IsMissing(err, a.Ref.Key.Name):
		return Result{Absent: true}, nil
	case err != nil:
		return Result{Err: err}, nil
	}
	s := x.standingOf(a, live)
	if !s.controlled && !s.child {
		return Result{Absent: true, Taken: true}, nil
	}
	r, found := x.claimAs(ctx, a, live, s)
	if _, taken := errors.AsType[*NameTakenError](r.Err); taken {
		return Result{Absent: true, Taken: true}, nil
	}
	return r, found
}

// A claimKind says what is to be done about an object that holds the name of a child.
type claimKind int

const (
	claimForeign    claimKind = iota // nothing
	claimEnds                        // it is being deleted: its end is awaited
	claimStillThere                  // it is a child that was deleted, and is there all the same
	claimArrived                     // it is a child: an earlier create succeeded, though its answer never arrived
	claimControlled                  // its controller is the parent
	claimFree                        // it is nobody's, and may be adopted
)

// notLabelled says whose an object is that the parent controls and the operator hasn't made.
const notLabelled = "its controller is this parent, but it isn't labelled as a child"

// claimOn returns what is to be done about an object of this standing.
func (x *Executor) claimOn(live *resource.Resource, s *standing) claimKind {
	switch {
	case live.IsDeleting() && (s.owned == x.Config.Name || s.controlled || s.free()):
		return claimEnds
	case s.child && x.contradicts(live):
		return claimStillThere
	case s.child && x.Watched(live):
		return claimArrived
	case s.controlled && !s.foreign:
		return claimControlled
	case s.free():
		return claimFree
	}
	return claimForeign
}

// takeControlled takes an object whose controller is the parent, and which lacks
// labels: a child of the operator, or, if the configuration allows that, an object
// that no operator has labelled. Any other object is another operator's.
func (x *Executor) takeControlled(ctx context.Context, a *plan.Action, live *resource.Resource, s standing) (Result, plan.Finding) {
	restores, err := x.restores(ctx, a, live, &s)
	switch {
	case err != nil:
		return Result{Err: err}, nil
	case restores:
		return x.take(ctx, a, live)
	case s.adoptable && s.unlabelled():
		return x.takeIfParentLives(ctx, a, live)
	}
	return Result{Err: x.nameTaken(a, live, notLabelled)}, nil
}

// leave leaves an object alone that the operator must not take. If it is a child
// of another parent of the operator, and that parent is going away, the object is
// waited for. Otherwise its name is taken.
func (x *Executor) leave(ctx context.Context, a *plan.Action, live *resource.Resource, s standing) Result {
	switch {
	case s.foreign:
		return Result{Err: x.nameTaken(a, live, s.holder)}
	case s.controller == nil:
		return Result{Err: x.nameTaken(a, live, x.nobodys(a))}
	}
	if s.owned == x.Config.Name && s.tracked == string(s.controller.UID) && object.IsOf(x.Parent.Type(), s.controller) {
		switch going, err := x.goingAway(ctx, live, s.controller); {
		case err != nil:
			return Result{Err: err}
		case going:
			return Result{Await: true, Parked: x.Store.Await(live, x.Parent.UID())}
		}
	}
	return Result{Err: x.nameTaken(a, live, "its controller is "+s.controller.Kind+" "+s.controller.Name)}
}

// nobodys says why the operator doesn't take an object that has no controller and no operator's
// labels or mark.
func (x *Executor) nobodys(a *plan.Action) string {
	if a.Kind.Child.AdoptOffered {
		return "it isn't offered by " + x.Offer + "=" + x.Config.Name
	}
	return "nobody manages it; Adopt or AdoptOffered in its config.Child would let the operator take it"
}

// nameTaken returns the error about a child whose name a foreign object holds, live. It
// lets the store wake the parent when the object goes, if the store learns of
// that. holder says who has the object; it may be empty.
func (x *Executor) nameTaken(a *plan.Action, live *resource.Resource, holder string) error {
	x.Store.Await(live, x.Parent.UID())
	return &NameTakenError{what: a.Ref.String(), operator: x.Config.Name, holder: holder}
}

// goingAway says whether another parent of the operator, the controller of live, is
// being deleted or gone. If the store doesn't have that parent, the API server is
// asked.
func (x *Executor) goingAway(ctx context.Context, live *resource.Resource, controller *metav1.OwnerReference) (bool, error) {
	if held, ok := x.Store.Parent(controller.UID); ok {
		return held.IsDeleting(), nil
	}
	key := types.NamespacedName{Namespace: x.Parent.Namespace(), Name: controller.Name}
	other, err := x.Client.Get(ctx, x.Types.Parent, key)
	switch {
	case apierror.IsMissing(err, controller.Name):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the parent of %s: %w", object.RefOf(live), err)
	}
	return other.UID() != controller.UID || other.IsDeleting(), nil
}

// takeIfParentLives takes an object that was nobody's, unless the parent is being
// deleted or gone. As a child of such a parent the object would fall to the garbage
// collector.
func (x *Executor) takeIfParentLives(ctx context.Context, a *plan.Action, live *resource.Resource) (Result, plan.Finding) {
	goes, err := x.Owner.Goes(ctx)
	switch {
	case err != nil:
		return Result{Err: err}, nil
	case goes:
		x.Store.Miss(x.Parent.UID()) // a child that isn't created: the next pass asks, too, whether the parent goes
		return Result{Await: true}, nil
	}
	switch of, err := x.ofAnotherShard(ctx, live); {
	case err != nil:
		return Result{Err: err}, nil
	case of != "":
		return Result{Err: x.nameTaken(a, live, "it is a child of "+of)}, nil
	}
	return x.take(ctx, a, live)
}

// ofAnotherShard returns the name of the living parent whose child an object is that has lost its owner reference, if the
// parent is of another shard; "" if there is none. A parent can't be read by the UID in the object's label, so the
// parents are listed. That is as rare as such an object.
func (x *Executor) ofAnotherShard(ctx context.Context, live *resource.Resource) (name string, err error) {
	tracked, _ := live.Label(x.Config.TrackingLabel)
	uid := types.UID(tracked)
	if uid == "" || x.Shard.Owns(uid) {
		return "", nil
	}
	namespace := ""
	if x.Types.Parent.Namespaced {
		namespace = live.Namespace()
	}
	err = x.Client.EachMetadata(ctx, x.Types.Parent, namespace, "", func(res *resource.Resource) {
		if res.UID() == uid && !res.IsDeleting() {
			name = res.Name()
		}
	})
	if err != nil {
		return "", fmt.Errorf("look for the parent of %s: %w", object.RefOf(live), err)
	}
	return name, nil
}

// take gives an object the operator's labels and the owner reference. Other
// differences are left to the next pass, or, in a dry run, to the next action.
func (x *Executor) take(ctx context.Context, a *plan.Action, live *resource.Resource) (Result, plan.Finding) {
	body, err := plan.ClaimPatch(x.Settings, live, x.Parent)
	if err != nil {
		return Result{Err: err}, nil
	}
	if x.Config.DryRun {
		return x.rehearseTake(ctx, a, live, body)
	}
	taken, err := x.Client.Patch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	if err != nil {
		return Result{Err: err}, nil
	}
	return Result{Live: taken, Wrote: true, Claimed: true, ShownNext: a.Verb == plan.VerbCreate && x.Watched(taken)}, nil
}
