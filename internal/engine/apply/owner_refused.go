package apply

import (
	"fmt"
	"strings"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
)

// The admission plugin OwnerReferencesPermissionEnforcement refuses owner references
// (403) in these words only. A client that sets one on a child needs the right to delete
// the child, and, for blockOwnerDeletion, that to set the finalizers of the owner. To
// look that up, the plugin has to know the owner's kind. It learns of kinds some time
// after their CustomResourceDefinition has changed.
const (
	cantDelete     = "cannot set an ownerRef on a resource you can't delete: "
	cantSetBlock   = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "
	unknownToBlock = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
)

// ownerRule returns the RBAC rule that would have allowed the owner reference of an
// action, "" if err isn't a refusal of an owner reference for want of a right.
func (x *Executor) ownerRule(a *plan.Action, err error) string {
	switch why := apierror.WhyForbidden(err, a.Kind.GVR.Group, a.Kind.GVR.Resource); {
	case strings.HasPrefix(why, cantSetBlock):
		parent := x.Types.Parent.GVR
		return apierror.RuleText(parent.Group, parent.Resource+"/finalizers", "update")
	case strings.HasPrefix(why, cantDelete):
		return a.Kind.Rule("delete")
	}
	return ""
}

// adviseOwner adds to described, the error of an action, what to do if err is the refusal
// of an owner reference whose kind the API server doesn't know: no right is missing then.
// The advice holds nothing of the API server's answer.
func (x *Executor) adviseOwner(a *plan.Action, err, described error) error {
	kind, ok := strings.CutPrefix(apierror.WhyForbidden(err, a.Kind.GVR.Group, a.Kind.GVR.Resource), unknownToBlock)
	if !ok {
		return described
	}
	parent := x.Types.Parent.Type
	if !strings.HasPrefix(kind, fmt.Sprintf("%s Kind %s: ", parent.APIVersion, parent.Kind)) {
		return fmt.Errorf("%w; the API server doesn't know the kind of another owner that the handler has set: see that its apiVersion and kind are right, and served", described)
	}
	return fmt.Errorf("%w; no right is missing: the API server doesn't know the kind %s yet, or not any more; "+
		"it learns of a new CustomResourceDefinition within a minute, and this is tried again; else see that the CustomResourceDefinition is there and established", described, parent)
}
