package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// maxTries bounds the dry runs of an update that one verification asks for.
const maxTries = 3

// A verification finds out which of the doubtful differences of an action are no more
// than the API server's, or a webhook's, way of writing the desired state. What is
// found out moves from left to normalized.
type verification struct {
	*Executor
	action     *plan.Action
	left       []merge.Difference // differences of which nothing is known yet
	normalized []merge.Difference
	confirmed  bool // an update with all desired values leads to what is normalized
	compared   bool // a creation was tried
	made       bool // and its answer is known
	created    bool // what a creation would make of the child is known, or of no use
}

// verify finds out whether a child really differs. managedFields tell, if the child
// comes from the first list: a field that the operator still owns was changed by
// nobody else. Only for other fields a dry run of the update asks the API server. If
// the update would change something, and managedFields don't tell that somebody else
// did, a dry run of a creation tells what webhooks made of the child when it was
// created.
//
// A dry run that is refused, by a policy say, is no error of the child. By its mark the
// child was given this desired state, so all differences pass for normalized, unless
// managedFields tell that somebody else has changed one: then the child is left alone
// until its next pass. What may have gone by the next request, such as an outage, is an
// error, so that the parent is tried again. So is a right that the operator lacks to
// mend what somebody else has changed. And if the API server's own validation refuses,
// somebody has set what can't be beside the desired state, unless a creation leads to the
// same differences: that is an error of the child, too.
//
// The mark of a Secret doesn't tell that: see prove.
func (x *Executor) verify(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	v := verification{Executor: x, action: a}
	if a.Unsure() {
		return v.prove(ctx)
	}
	entries := x.Store.HeldFields(a.Live)
	v.normalized, v.left = plan.Held(a, entries)
	if len(v.left) > 0 {
		told := len(entries) > 0 && plan.Taken(v.left)
		v.created = told
		err := v.ask(ctx)
		_, lacks := errors.AsType[*apierror.ForbiddenError](err)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), isPassing(err):
			return Result{Err: err}, nil // a newer state is on the way, or the next pass asks again
		case told && (lacks || err != nil && !apierror.IsNo(err)):
			return Result{Err: err}, nil
		case isNotTried(err): // managedFields tell all that is known
			if len(entries) > 0 && !told {
				v.settle(v.left, nil)
			}
		case isContradiction(err) && (told || v.compareTwin(ctx)):
			// The write that follows is refused, too, and that is told.
		case told && err != nil:
			return Result{}, nil
		case err != nil:
			v.settle(v.left, nil)
		}
	}
	return Result{}, plan.Verified(a, v.normalized, v.confirmed)
}

// prove is verify for a child of which nobody knows what it was given: the desired state
// may be another one. Only a difference that a dry run shows, of the update or of a
// creation, is normalized. All others are to be written. If that is refused, it is an
// error of the child, as the refusal of any write is.
func (v *verification) prove(ctx context.Context) (Result, plan.Finding) {
	v.left = v.action.Doubtful
	live, err := v.update(ctx)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), isPassing(err):
		return Result{Err: err}, nil
	case err == nil:
		v.settle(plan.Explained(v.left, live))
		v.confirmed = len(v.left) == 0
	}
	if len(v.left) > 0 {
		if fresh, err := v.twin(ctx); err == nil {
			v.settle(plan.Explained(v.left, fresh))
		}
	}
	return Result{}, plan.Verified(v.action, v.normalized, v.confirmed)
}

// ask asks the API server about the differences that are left. What is left in the
// end somebody has changed. The error is that of a dry run that wasn't answered.
func (v *verification) ask(ctx context.Context) error {
	for range maxTries {
		live, err := v.update(ctx)
		fields := apierror.ImmutableFields(err)
		switch {
		case err == nil:
			explained, others := plan.Explained(v.left, live)
			v.confirmed = len(v.normalized) == 0 && len(others) == 0
			v.settle(explained, others)
		case len(fields) == 0:
			return err
		case v.created && !v.settleIn(fields): // what can't be changed, nobody has changed since the creation
			return err
		}
		if !v.created && len(v.left) > 0 {
			v.create(ctx)
		}
		if err == nil || len(v.left) == 0 {
			return nil
		}
	}
	v.settle(v.left, nil)
	return nil
}

// update tries the update of the child without what is normalized. It returns how the
// answer differs from the desired state.
func (v *verification) update(ctx context.Context) ([]merge.Difference, error) {
	a, keep := v.action, plan.Paths(v.normalized)
	answer, err := v.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(v.Settings, a, v.Parent, keep...), true)
	if err != nil {
		return nil, err
	}
	return a.Kind.Comparison.Compare(answer.Unstructured().Object, a.Want.Object(), nil), nil
}

// create tries to create the child anew, under another name. Differences that the
// new object has as well are normalized. If it can't be created, managedFields tell
// what nobody has changed.
func (v *verification) create(ctx context.Context) {
	v.created = true
	if v.compareTwin(ctx) {
		return
	}
	if entries, err := v.readFields(ctx, v.action.Kind, v.action.Live); err == nil {
		v.settle(plan.Unowned(v.left, entries, v.Config.Name))
	}
}

// compareTwin tries to create the child anew, under another name. Differences that the
// new object has as well are normalized. It returns false if nothing can be created.
// It asks once.
func (v *verification) compareTwin(ctx context.Context) bool {
	if v.compared {
		return v.made
	}
	rest, err := v.twin(ctx)
	v.compared, v.made = true, err == nil
	if v.made {
		v.settle(plan.Explained(v.left, rest))
	}
	return v.made
}

// twin tries to create the child anew, under another name. It returns how the answer
// differs from the desired state.
func (v *verification) twin(ctx context.Context) ([]merge.Difference, error) {
	a := v.action
	answer, err := v.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.TwinBody(v.Settings, a, v.Parent))
	if err != nil {
		return nil, err
	}
	return a.Kind.Comparison.Compare(answer, a.Want.Object(), nil), nil
}

// settleIn takes the differences in these fields for normalized. It returns false if there
// are none.
func (v *verification) settleIn(fields []string) bool {
	in, others := plan.SplitIn(fields, v.left)
	v.settle(in, others)
	return len(in) > 0
}

// settle takes differences for normalized. left are all others.
func (v *verification) settle(explained, left []merge.Difference) {
	v.normalized, v.left = append(v.normalized, explained...), left
}

// isContradiction says whether the API server's own validation finds that the object of an
// update can't be. The desired state was accepted once, so it is what stands beside the
// desired state now that can't be there.
func isContradiction(err error) bool {
	return apierrors.IsInvalid(err) && !apierror.IsDenial(err)
}

// isNotTried says whether a dry run wasn't sent, since only reading is allowed.
func isNotTried(err error) bool {
	_, untried := errors.AsType[apierror.NotTriedError](err)
	return untried
}

// isPassing says whether a request has failed for a reason that has nothing to do
// with the object, and may have gone with the next request.
func isPassing(err error) bool {
	if err == nil {
		return false
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
}
