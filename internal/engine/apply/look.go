package apply

import (
	"context"
	"errors"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// A Prospect is what becomes of an object that has the name of a child to be created.
type Prospect int

// The prospects of an object.
const (
	LeftAlone Prospect = iota // it isn't the operator's, and the child can't be created
	Taken                     // it becomes the child
	Awaited                   // its end or a newer state of it is awaited
)

// Look says what Run would make of live, which has the name of the child that a creates, and why.
// It makes no write. At most it reads the managedFields of live, and the parent that controls it.
func (x *Executor) Look(ctx context.Context, a *plan.Action, live *resource.Resource) (Prospect, string, error) {
	s := x.standingOf(a, live)
	switch x.claimOn(live, &s) {
	case claimEnds:
		return Awaited, "an object of this name is being deleted; the child is created once it is gone", nil
	case claimStillThere, claimArrived:
		return Awaited, "it was created a moment ago", nil
	case claimFree:
		return Taken, "an object of this name is nobody's, and becomes the child", nil
	case claimControlled:
		restores, err := x.restores(ctx, a, live, &s)
		switch {
		case err != nil:
			return LeftAlone, "", err
		case restores:
			return Taken, "it is the child, from which somebody took labels; they are restored", nil
		case s.adoptable && s.unlabelled():
			return Taken, "an object of this name has the parent as its controller, and becomes the child", nil
		}
		return LeftAlone, x.takenText(notLabelled), nil
	}
	left := x.leave(ctx, a, live, s)
	if taken, ok := errors.AsType[*NameTakenError](left.Err); ok {
		return LeftAlone, x.takenText(taken.holder), nil
	}
	if left.Err != nil {
		return LeftAlone, "", left.Err
	}
	return Awaited, "an object of this name is a child of another parent, which is going away; the child is created once it is gone", nil
}

// takenText says that an object isn't the operator's.
func (x *Executor) takenText(holder string) string {
	text := "an object of this name exists and is not managed by " + x.Config.Name
	if holder != "" {
		text += " (" + holder + ")"
	}
	return text
}
