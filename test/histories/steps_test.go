package histories

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// take carries out a step. What isn't there can't be changed, which is fine.
func (w *world) take(s step, verbose bool) {
	args := append(slices.Clone(s.args), "", "", "")
	switch s.verb {
	case "set":
		w.set(args[0], args[1], args[2])
	case "refer":
		w.change("Parent/"+args[0], func(o map[string]any) { refer(o, args[1]) })
	case "keep", "lose", "renew":
		w.takeOnRelated(s.verb, args[0], args[1], args[2])
	case "fail":
		w.change("Parent/"+args[0], func(o map[string]any) { inside(o, "spec")["fail"] = args[1] })
	case "mend":
		w.change("Parent/"+args[0], func(o map[string]any) { delete(inside(o, "spec"), "fail") })
	case "delete":
		_ = w.server.Delete(parentType(), key(args[0]))
	case "select":
		w.change("Parent/"+args[0], func(o map[string]any) { inside(o, "metadata", "labels")["mine"] = args[1] })
	case "former":
		if p := w.server.Get(parentType(), key(args[0])); p != nil && !p.IsDeleting() && w.selected(p) && w.calls(p.UID()) > 0 {
			w.addFinalizer("Parent/"+args[0], formerFinalizer)
			if args[1] == "alone" { // as an earlier build has left it
				w.takeFinalizer("Parent/"+args[0], finalizer)
			}
		}
	case "hold":
		w.addFinalizer(args[0], foreignFinalizer)
	case "let-go":
		w.letGo()
	case "late":
		w.server.Hold(typeOf(args[0]))
	case "on-time":
		w.server.Release()
	case "twice":
		n, _ := strconv.Atoi(args[1])
		w.plans.repeat(strings.ToLower(args[0])+"s", n)
	case "break":
		w.server.BreakWatches()
	case "relist":
		w.server.Compact()
		w.server.BreakWatches()
	case "meet":
		n, _ := strconv.Atoi(args[2])
		w.plans.meet(args[0], args[1], n)
	case "collect":
		w.server.CollectGarbage()
	case "backup":
		w.restore = w.server.Backup()
	case "restore":
		if w.restore != nil {
			w.restores.Add(1)
			w.down.Store(time.Now().Add(2 * time.Second).UnixNano())
			w.restore()
			w.noteRestore()
		}
	case "restart", "crash":
		i, _ := strconv.Atoi(args[0])
		w.restart(w.replicas[i%len(w.replicas)], s.verb == "crash", verbose)
	default:
		w.takeOnChild(s.verb, args[0])
	}
}

// takeOnChild carries out a step about a child.
func (w *world) takeOnChild(verb, child string) {
	t, k := objectOf(child)
	live := w.server.Get(t, k)
	switch {
	case verb == "occupy":
		_, _ = w.server.Create(map[string]any{
			"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": k.Name, "namespace": k.Namespace},
		})
	case live == nil:
	case verb == "remove":
		_ = w.server.Delete(t, k)
	case verb == "replace": // as kubectl replace --force does
		if w.server.Delete(t, k) == nil {
			_, _ = w.server.Create(live.Unstructured().Object)
		}
	case verb == "tamper":
		w.change(child, func(o map[string]any) { inside(o, contentsField(t.Kind))["value"] = "tampered" })
	case verb == "strip":
		w.change(child, func(o map[string]any) { delete(inside(o, "metadata", "labels"), tracking) })
	case verb == "orphan":
		w.change(child, func(o map[string]any) { delete(inside(o, "metadata"), "ownerReferences") })
	}
}

// set creates a parent, or changes its spec.
func (w *world) set(name, value, children string) {
	spec := func(o map[string]any) {
		inside(o, "spec")["value"], inside(o, "spec")["children"] = value, children
	}
	if w.server.Get(parentType(), key(name)) != nil {
		w.change("Parent/"+name, spec)
		return
	}
	o := map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns", "labels": map[string]any{"mine": "yes"}},
	}
	spec(o)
	_, _ = w.server.Create(o)
}

const foreignFinalizer = "histories.example.com/holds"

// addFinalizer gives an object that isn't being deleted a finalizer.
func (w *world) addFinalizer(arg, name string) {
	w.change(arg, func(o map[string]any) {
		meta := inside(o, "metadata")
		if held, _ := meta["finalizers"].([]any); meta["deletionTimestamp"] == nil && !slices.Contains(held, any(name)) {
			meta["finalizers"] = append(held, name)
		}
	})
}

// letGo takes the foreign finalizer off every object.
func (w *world) letGo() {
	for _, kind := range []string{"Parent", "ConfigMap", "Part"} {
		for _, r := range w.server.List(typeOf(kind)) {
			if slices.Contains(r.Finalizers(), foreignFinalizer) {
				w.takeFinalizer(kind+"/"+r.Name(), foreignFinalizer)
			}
		}
	}
}

// takeFinalizer takes a finalizer off an object.
func (w *world) takeFinalizer(arg, name string) {
	w.change(arg, func(o map[string]any) {
		held, _ := inside(o, "metadata")["finalizers"].([]any)
		inside(o, "metadata")["finalizers"] = slices.DeleteFunc(held, func(f any) bool { return f == name })
	})
}

func (w *world) change(arg string, change func(o map[string]any)) {
	t, k := objectOf(arg)
	_, _ = w.server.Change(t, k, change)
}

// objectOf reads Kind/name.
func objectOf(arg string) (resource.Type, types.NamespacedName) {
	kind, name, _ := strings.Cut(arg, "/")
	return typeOf(kind), key(name)
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// inside returns the map at a path of fields, and makes it if need be.
func inside(o map[string]any, path ...string) map[string]any {
	for _, field := range path {
		next, ok := o[field].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[field] = next
		}
		o = next
	}
	return o
}
