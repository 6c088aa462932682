package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

// A NameTakenError says that a child can't be created, since an object that isn't
// the operator's has its name.
type NameTakenError struct {
	what     string // the kind and the name of the child
	operator string // the name of this operator
	holder   string // whose the object is, as text; empty: not known
}

// errStillThere is the error about a child that the API server has answered to have
// deleted, and still has.
var errStillThere = errors.New("the API server has answered that it is deleted, and still has it")

// Error names the child, the operator and, if it is known, whose the object is.
func (e *NameTakenError) Error() string {
	text := fmt.Sprintf("%s: already exists and is not managed by %s", e.what, e.operator)
	if e.holder != "" {
		text += " (" + e.holder + ")"
	}
	return text
}

// describe makes the error of an action begin with the child and the verb. The client
// has seen to it that the error holds no value of a Secret.
func describe(a *plan.Action, err error) error { return fmt.Errorf("%s: %s: %w", a.Ref, a.Verb, err) }

// describeImmutable is describe for the refusal to change immutable fields. It says
// which configuration could change them.
func describeImmutable(a *plan.Action, err error, fields []string) error {
	more := ""
	switch {
	case object.HoldsData(a.Ref.Type):
		more = " and lose the object's data"
	case !a.Kind.Child.RecreateImmutable: // else a webhook has refused
		more = ", RecreateImmutable would for such a field alone"
	}
	return fmt.Errorf("%s: %s: strategy %s can't change the immutable field %s: %w; strategy Recreate would%s, and OnDelete would wait until the object is deleted",
		a.Ref, a.Verb, a.Kind.Child.Strategy, strings.Join(fields, ", "), err, more)
}

// immutableFields returns the fields for which the API server rejects by err to change a child, though it would create the child so.
// It returns none for any other rejection: another strategy wouldn't help. Words alone don't tell the two apart, since the API server
// also calls a field forbidden that no object may have, or that may not stand beside another client's. So each field has to be one that
// the action changes, and a dry run asks whether the child could be created anew, unless that is known (creatable). If it can't be
// asked, the words count. Of rules in other words, as in a CRD, see isFixed.
func (x *Executor) immutableFields(ctx context.Context, a *plan.Action, err error, creatable bool) []string {
	fields := apierror.Fields(err)
	if len(fields) == 0 || a.Live == nil || a.Want == nil || a.Verb == plan.VerbAdopt || a.Kind.Child.Strategy == config.Recreate || !a.Changes(fields) {
		return nil
	}
	said := apierror.ImmutableFields(err)
	if len(said) == 0 && !x.isFixed(ctx, a) {
		return nil
	}
	if !creatable {
		untried, err := x.tryAnew(ctx, a, nil)
		var kept *keptError
		if errors.As(err, &kept) || len(said) == 0 && (err != nil || untried != nil) {
			return nil
		}
	}
	if len(said) == 0 {
		return fields
	}
	return said
}

// isFixed reports whether the API server rejects the desired state of a child that is recreated for immutable fields, beside none of
// another client's fields. Then these are not the reason.
func (x *Executor) isFixed(ctx context.Context, a *plan.Action) bool {
	if !a.Kind.Child.RecreateImmutable {
		return false
	}
	_, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.AloneBody(x.Settings, a, x.Parent), true)
	return apierrors.IsInvalid(err) && !apierror.IsDenial(err)
}

// recreatesImmutable says whether the write of a child was refused for an immutable field, and
// the child is to be recreated for that. Drift recreates no child. What a webhook refuses in such words is its own
// affair: nobody knows whether it would let the new child be.
func (x *Executor) recreatesImmutable(ctx context.Context, a *plan.Action, r Result) bool {
	switch a.Verb {
	case plan.VerbUpdate, plan.VerbApply:
	default:
		return false
	}
	return a.Kind.Child.RecreateImmutable && r.Err != nil && !a.Drifted() && !apierror.IsDenial(r.Err) && len(x.immutableFields(ctx, a, r.Err, r.creatable)) > 0
}
