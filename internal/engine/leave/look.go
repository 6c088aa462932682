package leave

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Survey is what there is of an operator.
type Survey struct {
	Operator string
	Parent   *catalog.Kind
	Parents  []Remnant // by namespace and name
	Children []Remnant // in the order of their types, then by namespace and name
}

// Look finds the parents and children of each operator. It reads their metadata, and
// writes nothing.
func Look(ctx context.Context, operators []Operator) ([]Survey, error) {
	out := make([]Survey, 0, len(operators))
	for _, o := range operators {
		parents, others, err := o.parents(ctx)
		if err != nil {
			return nil, err
		}
		children, err := o.children(ctx, nil)
		if err != nil {
			return nil, err
		}
		s := Survey{Operator: o.name(), Parent: o.Settings.Types.Parent}
		for _, p := range parents {
			s.Parents = append(s.Parents, o.remnant(p))
		}
		kept := byUID(others)
		for _, c := range children {
			if kept[c.parent] == nil {
				r := remnantOf(c.object)
				r.Retained = c.kind.Child.Retain
				s.Children = append(s.Children, r)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// remnant returns what is told of a parent.
func (o Operator) remnant(parent *resource.Resource) Remnant {
	r := remnantOf(parent)
	r.Holds, r.Paused = o.holds(parent), o.isPaused(parent)
	return r
}

// parents returns the metadata of the parents that the operator serves, and of those with
// a finalizer of it, by namespace and name. others are those of the type that are nothing of the operator's any more.
func (o Operator) parents(ctx context.Context) (own, others []*resource.Resource, err error) {
	err = o.each(ctx, o.Settings.Types.Parent, []string{""}, func(res *resource.Resource) {
		if o.Settings.Selects(res) || o.holds(res) {
			own = append(own, res)
		} else {
			others = append(others, res)
		}
	})
	return own, others, err
}

// byUID returns objects by their UIDs.
func byUID(objects []*resource.Resource) map[types.UID]*resource.Resource {
	out := make(map[types.UID]*resource.Resource, len(objects))
	for _, res := range objects {
		out[res.UID()] = res
	}
	return out
}

// A child is an object of which a parent of the operator is the controller, and that has
// the operator's labels.
type child struct {
	kind   *catalog.Kind
	object *resource.Resource // its metadata
	parent types.UID
}

// children returns the children of a parent, or of all parents if parent is nil. Types
// that aren't served have none.
func (o Operator) children(ctx context.Context, parent *resource.Resource) ([]child, error) {
	selector := o.Settings.ChildSelector()
	if parent != nil {
		selector = fmt.Sprintf("%s=%s,%s=%s", o.Settings.Config.OwnershipLabel, o.name(), o.Settings.Config.TrackingLabel, parent.UID())
	}
	group := o.Settings.Config.Parent.GroupVersionKind().GroupKind()
	var out []child
	for _, k := range slices.Concat(o.Settings.Types.Children, o.Settings.Types.Former) {
		if k.Unserved {
			continue
		}
		err := o.each(ctx, k, []string{selector}, func(res *resource.Resource) {
			tracked, _ := res.Label(o.Settings.Config.TrackingLabel)
			if res.IsControlledBy(group, types.UID(tracked)) {
				out = append(out, child{k, res, types.UID(tracked)})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stripped returns the children of these parents from which somebody has taken labels, so that
// children doesn't find them.
func (o Operator) stripped(ctx context.Context, parents []*resource.Resource) ([]child, error) {
	if len(parents) == 0 {
		return nil, nil
	}
	of := byUID(parents)
	var out []child
	for _, k := range slices.Concat(o.Settings.Types.Children, o.Settings.Types.Former) {
		if k.Unserved {
			continue
		}
		err := o.each(ctx, k, []string{"!" + o.Settings.Config.TrackingLabel, "!" + o.Settings.Config.OwnershipLabel}, func(res *resource.Resource) {
			controller := object.ControllerOf(res)
			if controller != nil && of[controller.UID] != nil && plan.IsMadeFor(o.Settings, of[controller.UID], res) {
				out = append(out, child{k, res, controller.UID})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// each calls do for the metadata of each object of a type that matches one of the selectors, in the
// namespaces of the operator, by namespace and name.
func (o Operator) each(ctx context.Context, k *catalog.Kind, selectors []string, do func(*resource.Resource)) error {
	found := map[types.UID]*resource.Resource{} // a list that begins anew tells of objects twice
	for _, namespace := range o.Settings.NamespacesOf(k) {
		for _, selector := range selectors {
			err := o.Client.EachMetadata(ctx, k, namespace, selector, func(res *resource.Resource) { found[res.UID()] = res })
			if err != nil {
				return catalog.Forbidden(k, "list", fmt.Errorf("%s: list: %w", k.Type, err))
			}
		}
	}
	sorted := make([]*resource.Resource, 0, len(found))
	for _, res := range found {
		sorted = append(sorted, res)
	}
	slices.SortFunc(sorted, object.Compare)
	for _, res := range sorted {
		do(res)
	}
	return nil
}

// Rights returns the rights without which the operators can't leave so.
func Rights(operators []Operator, how How) []catalog.Right {
	var out []catalog.Right
	add := func(o Operator, k *catalog.Kind, verbs ...string) {
		for _, namespace := range o.Settings.NamespacesOf(k) {
			for _, verb := range verbs {
				out = append(out, catalog.Right{Verb: verb, Group: k.GVR.Group, Resource: k.GVR.Resource, Namespaced: k.Namespaced, Namespace: namespace, Required: true})
			}
		}
	}
	for _, o := range operators {
		verbs := []string{"list"}
		if how.KeepParents || how.KeepChildren || o.Settings.Config.ParentSelector != "" {
			verbs = append(verbs, "get", "patch")
		}
		if !how.KeepParents {
			verbs = append(verbs, "delete")
		}
		add(o, o.Settings.Types.Parent, verbs...)
		for _, k := range slices.Concat(o.Settings.Types.Children, o.Settings.Types.Former) {
			switch {
			case k.Unserved:
			case how.KeepChildren:
				add(o, k, "list", "get", "patch")
			default:
				add(o, k, "list")
			}
		}
	}
	return out
}

// Check returns an error if the operators can't leave so, whatever there is of them.
func Check(operators []Operator, how How) error {
	var errs []error
	if how.Drain < 0 {
		errs = append(errs, fmt.Errorf("--drain: %v is negative", how.Drain))
	}
	if how.Finalize && how.KeepParents {
		errs = append(errs, errors.New("--finalize and --keep-parents contradict each other: parents that stay aren't finalized"))
	}
	for _, o := range operators {
		if !how.KeepParents && !o.ownsParents() {
			errs = append(errs, fmt.Errorf("%s: its parents are %s objects, which are Kubernetes' and not the operator's to delete; use --keep-parents, and --keep-children if the children shall stay, too",
				o.name(), o.Settings.Config.Parent))
		}
	}
	return errors.Join(errs...)
}
