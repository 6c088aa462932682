package storm

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A World is what there is in the cluster of a run.
type World struct{ w *world }

// Get returns the object that obj names, nil if it isn't there.
func (w World) Get(obj any) *resource.Resource {
	t, key, err := encode.Identity(obj)
	if err != nil {
		return nil
	}
	if (key.Namespace == "" || key.Namespace == "default") && !w.w.clusterScoped(t) {
		key.Namespace = w.w.namespace
	}
	return w.w.server.Get(t, key)
}

// List returns the objects of a type by namespace and name.
func (w World) List(t resource.Type) []*resource.Resource { return w.w.server.List(t) }

// Children returns the objects whose controller the object is that obj names.
func (w World) Children(obj any) (out []*resource.Resource) {
	owner := w.Get(obj)
	if owner == nil {
		return nil
	}
	for _, k := range w.w.kinds {
		for _, r := range w.w.server.List(k.Type) {
			for _, ref := range r.OwnerReferences() {
				if ref.UID == owner.UID() && ref.Controller != nil && *ref.Controller {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// check looks at what there is when all is quiet.
func (w *world) check(ctx context.Context) {
	w.checkOrphans()
	w.checkFailing()
	w.look("finally", w.scenario.finally) // before outside systems are called once more
	for _, p := range w.running() {
		if !p.Killed() && p.proxy != nil {
			p.proxy.recheck(ctx)
		}
	}
}

// checkOrphans finds children whose parents are gone.
func (w *world) checkOrphans() {
	lives := map[string]bool{}
	for _, k := range w.kinds {
		for _, r := range w.server.List(k.Type) {
			lives[string(r.UID())] = true
		}
	}
	for _, child := range w.children() {
		for _, ref := range child.OwnerReferences() {
			if ref.Controller != nil && *ref.Controller && !lives[string(ref.UID)] {
				w.violated("orphan", "", "%s has outlived %s %s", named(child.Type(), child.Key()), ref.Kind, ref.Name)
			}
		}
	}
}

// collected finds fault with the end of an object that the garbage collector has deleted, if it was a child that is to outlive its parent.
func (w *world) collected(r *resource.Resource) {
	owner := object.ControllerOf(r)
	if owner != nil && r.IsControlledBy(w.operator.Parent.GroupVersionKind().GroupKind(), owner.UID) && w.retains(r.Type()) {
		w.violated("lost", "", "%s has gone with %s %s, though its type has Retain", named(r.Type(), r.Key()), owner.Kind, owner.Name)
	}
}

// retains says whether children of a type outlive their parents.
func (w *world) retains(t resource.Type) bool {
	return slices.ContainsFunc(w.operator.Children, func(c config.Child) bool { return c.Type == t && c.Retain })
}

// hasOutlived says whether an object is, by all signs, a child that has outlived its parent.
func (w *world) hasOutlived(r *resource.Resource) bool {
	return w.retains(r.Type()) && object.ControllerOf(r) == nil && !w.inSteps(r)
}

// checkFailing notes which parents fail.
func (w *world) checkFailing() {
	failing := map[string]string{}
	for _, p := range w.running() {
		e := p.engine()
		if e == nil {
			continue
		}
		for _, row := range e.Survey() {
			if row.State != explain.Failing && row.State != explain.Throttled {
				continue
			}
			key := keyIn(row.Namespace, row.Name)
			name := named(w.operator.Parent, key)
			failing[name] = row.Reason
			if errs := e.Errors(key); row.State == explain.Failing && len(errs) > 0 && !reconcile.HandlerFailed(errs[len(errs)-1]) {
				w.violated("failing", name, "%s keeps failing, though its handler succeeds: %v", name, errs[len(errs)-1])
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.failing = failing
}

// engine returns the engine of a process, nil if it doesn't work.
func (p *process) engine() *reconcile.Engine {
	if p.manager == nil || p.Killed() {
		return nil
	}
	return p.manager.Engine()
}

// against holds the end of a run against that of the run without faults.
func (o *outcome) against(ought *outcome) []Violation {
	out := slices.Clone(o.violations)
	if !slices.ContainsFunc(out, func(v Violation) bool { return v.Kind == "silence" }) {
		for _, text := range differences(o.state, ought.state) {
			out = append(out, Violation{Kind: "state", Text: text})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.failing)) {
		if ought.failing[name] == "" {
			out = append(out, Violation{Kind: "failing", Text: name + " keeps failing, and without faults it doesn't: " + o.failing[name]})
		}
	}
	return out
}

func keyIn(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (v Violation) kind() string { return v.Kind }

// kindAndSubject is a kind of violation, with what it is about.
func (v Violation) kindAndSubject() string { return v.Kind + " " + v.Subject }

// among returns what some violations are, by what of says of each.
func among(all []Violation, of func(Violation) string) map[string]bool {
	out := map[string]bool{}
	for _, v := range all {
		out[of(v)] = true
	}
	return out
}

func overlaps(a, b map[string]bool) bool {
	for kind := range maps.Keys(a) {
		if b[kind] {
			return true
		}
	}
	return false
}
