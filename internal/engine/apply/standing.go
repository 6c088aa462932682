package apply

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A standing says whose an object is that holds the name of a child.
type standing struct {
	controller     *metav1.OwnerReference // nil: there is none
	owned, tracked string                 // the values of the ownership and the tracking label; "": there is no label

	ours       bool   // both labels are those of a child of this parent
	controlled bool   // the controller has the parent's UID
	child      bool   // it is a child of this parent
	marked     bool   // the object carries a mark of this operator
	foreign    bool   // a label or a mark says that the object is somebody else's
	holder     string // of foreign: who that is, as text; empty: not known
	adoptable  bool   // the configuration allows the operator to take an object that is nobody's
}

// free says whether the operator may take an object that has no controller.
func (s *standing) free() bool {
	return s.controller == nil && !s.foreign && (s.ours || s.adoptable)
}

// unlabelled says whether an object whose controller is the parent carries none of
// the labels that an operator gives.
func (s *standing) unlabelled() bool { return s.controlled && s.owned == "" && s.tracked == "" }

// standingOf returns the standing of an object that holds the name of the child of
// a.
func (x *Executor) standingOf(a *plan.Action, live *resource.Resource) standing {
	s := standing{controller: object.ControllerOf(live), marked: plan.Marked(x.Settings, live)}
	s.tracked, _ = live.Label(x.Config.TrackingLabel)
	s.owned, _ = live.Label(x.Config.OwnershipLabel)
	s.child = IsChild(x.Settings, x.Parent, live)
	s.ours = s.tracked == string(x.Parent.UID()) && s.owned == x.Config.Name
	s.controlled = s.controller != nil && s.controller.UID == x.Parent.UID()
	s.adoptable = mayAdopt(x.Settings, a.Kind, live)
	s.holder, s.foreign = x.foreignTo(live, &s)
	return s
}

// IsChild says whether an object is a child of the parent: it carries this operator's
// labels, and the parent is its controller.
func IsChild(s *catalog.Settings, parent, res *resource.Resource) bool {
	tracked, _ := res.Label(s.Config.TrackingLabel)
	owned, _ := res.Label(s.Config.OwnershipLabel)
	return tracked == string(parent.UID()) && owned == s.Config.Name && object.Controls(parent, res)
}

// foreignTo says whether a label or a mark of an object says that it is somebody
// else's, and whose.
func (x *Executor) foreignTo(live *resource.Resource, s *standing) (holder string, foreign bool) {
	if s.owned != "" && s.owned != x.Config.Name {
		return "operator " + s.owned + " manages it", true
	}
	if s.owned == "" && s.tracked != "" && s.tracked != string(x.Parent.UID()) {
		return "its label " + x.Config.TrackingLabel + " names another parent", true
	}
	if s.owned == x.Config.Name && s.tracked != "" && s.controller == nil && s.tracked != string(x.Parent.UID()) {
		if other, ok := x.Store.Parent(types.UID(s.tracked)); ok && !other.IsDeleting() {
			return "it is a child of " + other.Name(), true // whose owner reference somebody took off
		}
	}
	if maker, ok := plan.ForeignMark(x.Settings, live); ok {
		if maker == "" {
			return "it carries another operator's mark", true
		}
		return "it carries the mark of operator " + maker, true
	}
	return x.elsewhere(live)
}

// elsewhere says whether an object carries the labels that an operator with another
// Domain gives, and which operator that is.
func (x *Executor) elsewhere(live *resource.Resource) (holder string, foreign bool) {
	for _, other := range plan.OperatorsElsewhere(x.Settings, live) {
		if other != x.Config.Name {
			return "operator " + other + " manages it", true
		}
	}
	return "", false
}

// mayAdopt says whether the configuration allows the operator to take an object of type
// k that is nobody's.
func mayAdopt(s *catalog.Settings, k *catalog.Kind, live *resource.Resource) bool {
	return k.Child.Adopt || k.Child.AdoptOffered && offered(s, live)
}

// offered says whether an object is offered to this operator, by an annotation or a
// label: see config.Child.AdoptOffered.
func offered(s *catalog.Settings, live *resource.Resource) bool {
	annotation, _ := live.Annotation(s.Offer)
	label, _ := live.Label(s.Offer)
	return annotation == s.Config.Name || label == s.Config.Name
}

// Adoptable says whether the operator may take over an object of type k that nobody has
// labelled, for the parent that is its controller, and returns that parent's UID.
// Whether there is such a parent isn't looked at. An object that is being deleted can't
// be taken over. Nor can one with the labels or the mark of any operator but this one
// in this Domain: another operator may have the same name in another Domain.
func Adoptable(s *catalog.Settings, k *catalog.Kind, live *resource.Resource) (parent types.UID, ok bool) {
	controller := object.ControllerOf(live)
	if controller == nil || live.IsDeleting() || k == s.Types.Parent || !object.IsOf(s.Types.Parent.Type, controller) {
		return "", false
	}
	if !mayAdopt(s, k, live) {
		return "", false
	}
	_, tracked := live.Label(s.Config.TrackingLabel)
	_, owned := live.Label(s.Config.OwnershipLabel)
	_, marked := plan.ForeignMark(s, live)
	if tracked || owned || marked || plan.MarkedElsewhere(s, live) || len(plan.OperatorsElsewhere(s, live)) > 0 {
		return "", false
	}
	return controller.UID, true
}

// restores says whether an object whose controller is the parent is a child from
// which somebody took labels. It is if it carries the operator's ownership label or
// mark, or if by its managedFields the operator has written it. Otherwise another
// operator with the same parent may have made the object.
func (x *Executor) restores(ctx context.Context, a *plan.Action, live *resource.Resource, s *standing) (bool, error) {
	if s.owned == x.Config.Name || s.marked {
		return true, nil
	}
	entries, err := x.readFields(ctx, a.Kind, live)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if entry.Manager == x.Config.Name && entry.Subresource == "" {
			return true, nil
		}
	}
	return false, nil
}
