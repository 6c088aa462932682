package apply

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
)

// A NameTakenError says that a child's name is held by a foreign object.
type NameTakenError struct {
	what     string // kind and name
	operator string
	holder   string // who has it, if anyone is known to
}

func (e *NameTakenError) Error() string {
	text := fmt.Sprintf("%s: already exists and is not managed by %s", e.what, e.operator)
	if e.holder != "" {
		text += " (" + e.holder + ")"
	}
	return text
}

// describe makes the error of a write fit to be shown: it starts with its
// subject, says what would work, and holds no value of a Secret.
func describe(a *plan.Action, err error) error {
	subject := fmt.Sprintf("%s: %s", a.Ref, a.Verb)
	fields := apierror.ImmutableFields(err)
	if a.Kind.Secret() {
		err = apierror.Redacted(err)
	}
	if len(fields) > 0 && a.Live != nil && a.Kind.Child.Strategy != config.Recreate {
		return fmt.Errorf("%s: strategy %s can't change the immutable field %s: %w; strategy Recreate would, and OnDelete would wait until the object is deleted",
			subject, a.Kind.Child.Strategy, strings.Join(fields, ", "), err)
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// ownerRule returns the rule that a refusal of an owner reference lacks, "" if
// err is another error. Where the admission plugin
// OwnerReferencesPermissionEnforcement is on, who gives an object an owner must
// be allowed to delete the object, since its owner's end does, and to set the
// finalizers of the owner that it is to block.
func (x *Executor) ownerRule(k *catalog.Kind, err error) string {
	switch {
	case !apierrors.IsForbidden(err):
		return ""
	case strings.Contains(err.Error(), "blockOwnerDeletion"):
		parent := x.Types.Parent.GVR
		return apierror.RuleText(parent.Group, parent.Resource+"/finalizers", "update")
	case strings.Contains(err.Error(), "ownerRef on a resource you can't delete"):
		return k.Rule("delete")
	}
	return ""
}
