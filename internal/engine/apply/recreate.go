package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
)

// A child is deleted to be created anew only if the API server would take the new
// state. Dry runs ask, while the old child is still there:
//
//  1. an update tells whether the child would change at all;
//  2. a create under another name tells what a new child would be;
//  3. a create under the child's own name tells whether the API server takes it.
//     Everything is checked before the name, so the refusal to be hoped for is that
//     the name is taken. Rules about names hold here as they will for the new child.
//     If both others were refused for the same cause, this one isn't asked for.
//
// The old child may be the reason of a refusal: by its ports and IP addresses, by
// its share of a quota, or because a webhook names it. Such a refusal ends with it.

// A keptError says that a child wasn't deleted, since its new state is refused.
type keptError struct{ err error }

func (e *keptError) Error() string {
	return "not deleted, since its new state is refused: " + e.err.Error()
}

func (e *keptError) Unwrap() error { return e.err }

// recreate deletes a child that a later pass creates anew. It deletes nothing if a
// new child would be as the old one is: a new build of the operator may spell the
// same state differently, or leave out a default. It fails, and deletes nothing, if
// the API server refuses the new child.
func (x *Executor) recreate(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	updated, updateErr := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent), true)
	if updateErr != nil && !refuses(updateErr) {
		return Result{Err: updateErr}, nil
	}
	made, trialErr := x.tryCreate(ctx, a, plan.TrialBody(x.Settings, a.Want, x.Parent))
	if trialErr != nil && !refuses(trialErr) {
		return Result{Err: trialErr}, nil
	}
	unchanged := updateErr == nil && plan.ChangesNothing(x.Settings, a.Live, updated)
	if found := anew(a, made, unchanged); found != nil {
		return Result{}, found
	}
	if apierror.ShareCause(updateErr, trialErr) { // which neither the name nor the old child plays a part in
		return Result{Err: &keptError{updateErr}}, nil
	}
	untried, err := x.tryAnew(ctx, a, trialErr)
	if err != nil {
		return Result{Err: err}, nil
	}
	var r Result
	switch {
	case !x.Config.DryRun:
		r = x.delete(ctx, a)
	case updateErr == nil && !unchanged:
		r = left(a, plan.Effects(x.Settings, a.Kind, a.Live, updated))
	default:
		r = left(a, plan.FieldsOf(changing(a, made)))
		r.Untold = apierror.RefusesDryRun(updateErr) || apierror.RefusesDryRun(trialErr)
	}
	if untried != nil && r.Err == nil {
		r.Untried = describe(a, untried)
	}
	return r, nil
}

// changing returns a without those differences that a new child would have, too. made is what a new child would be, nil
// if that isn't known.
func changing(a *plan.Action, made map[string]any) *plan.Action {
	if made == nil {
		return a
	}
	out := *a
	if _, out.Diffs = plan.Explained(a.Diffs, a.Kind.Comparison.Compare(made, a.Want.Object(), nil)); len(out.Diffs) == 0 {
		return a // the child is created anew for a cause that no field tells
	}
	return &out
}

// anew returns what follows if the child needn't be created anew, nil if it must be.
// made is what a new child would be, nil if that isn't known. unchanged says that an
// update would change nothing. That may mean that the child is as desired already,
// or that the API server ignores the update without a word.
func anew(a *plan.Action, made map[string]any, unchanged bool) plan.Finding {
	creation := plan.CreationUnclear
	if made != nil {
		creation = plan.Anew(a, made)
	}
	switch creation {
	case plan.CreationSame:
		return plan.Unchanged{}
	case plan.CreationDiffers:
		return nil
	}
	if unchanged {
		return plan.Unchanged{}
	}
	if made == nil {
		return nil
	}
	if rest := a.Kind.Comparison.Compare(made, a.Want.Object(), nil); plan.ExplainsAny(a, rest) {
		return plan.Normalized{Rest: rest} // without these fields the update may change nothing
	}
	return nil
}

// refuses says whether an error is an answer about the object, rather than a failure
// to answer. A dry run that the API server can't make is such an answer too. That the
// operator lacks a right is none: the error names the rule.
func refuses(err error) bool {
	if _, lacks := errors.AsType[*apierror.ForbiddenError](err); lacks {
		return false
	}
	return apierror.IsRefusal(err) || apierror.RefusesDryRun(err) || apierror.IsDenial(err) || apierror.IsAllocated(err) ||
		apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err)
}

// tryCreate creates an object as a dry run, and returns what the API server makes of
// it. If the object asks for what the child of a has, such as a port, that is left
// out: the API server then chooses another.
func (x *Executor) tryCreate(ctx context.Context, a *plan.Action, body any) (map[string]any, error) {
	made, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, body)
	if object, ok := body.(map[string]any); ok && apierror.IsAllocated(err) {
		if rest, ok := plan.WithoutAllocated(object, a.LiveObject()); ok {
			return x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, rest)
		}
	}
	return made, err
}

// tryAnew asks whether the API server would take the desired state of a if the child
// weren't there. The error is a *keptError if not. untried says why that couldn't be
// asked, nil if it could. trialErr is the refusal of the desired state under another
// name, nil if it wasn't refused.
func (x *Executor) tryAnew(ctx context.Context, a *plan.Action, trialErr error) (untried, err error) {
	body := plan.CreateBody(x.Settings, a.Want, x.Parent)
	_, err = x.tryCreate(ctx, a, body)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err) && !apierror.IsDenial(err):
		return nil, nil
	case apierror.RefusesDryRun(err):
		return err, nil
	case apierror.IsNamespaceTerminating(err), !refuses(err):
		return nil, err
	}
	if apierror.Collides(err, a.Ref.Key.Name) && apierror.Collides(trialErr, a.Ref.Key.Name) {
		return err, nil // it is the old child that stands in the way, though nobody knows what else does
	}
	if quota, ok := apierror.QuotaOf(err); ok {
		switch room, err := x.roomWithout(ctx, a, quota); {
		case err != nil:
			return nil, err
		case room:
			return nil, nil
		}
	}
	return nil, &keptError{err}
}

// roomWithout says whether a quota that has refused the desired state would have
// room for it if the child were gone. A dry run that creates the live child under
// another name tells whether, and how, the quota counts the child.
func (x *Executor) roomWithout(ctx context.Context, a *plan.Action, quota apierror.QuotaExceeded) (bool, error) {
	_, err := x.tryCreate(ctx, a, plan.LiveTrialBody(a))
	if err != nil && !refuses(err) {
		return false, err
	}
	var again *apierror.QuotaExceeded
	if q, ok := apierror.QuotaOf(err); ok {
		again = &q
	}
	return plan.HasRoomWithout(a.LiveObject(), quota, again, err != nil && again == nil), nil
}
