package storm

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// perform does what an act says. What isn't there can't be changed, which is fine.
func (w *world) perform(a act) {
	switch a.Verb {
	case "kill":
		w.pick(a.N).Kill()
	case "stop":
		w.pick(a.N).Stop()
	case "compact":
		w.server.Compact()
	case "break-watches":
		w.server.BreakWatches()
	case "bookmark":
		w.server.Bookmark()
	case "outage":
		w.setDown(a.For)
	case "silence":
		w.setSilent(a.For)
	case "cut-lease":
		w.pick(a.N).Cut(a.For)
	case "delete-child":
		if child := w.child(a.N); child != nil {
			w.note("somebody deletes %s", named(child.Type(), child.Key()))
			_ = w.server.Delete(child.Type(), child.Key())
		}
	case "tamper-child":
		w.tamper(a.N)
	case "touch-parent":
		if all := w.server.List(w.operator.Parent); len(all) > 0 {
			w.touch(all[a.N%len(all)])
		}
	case "change-related", "replace-related":
		w.disturbRelated(a)
	}
	w.changed()
}

// child returns one of the objects that are children of the operator's, but for those that steps are
// about.
func (w *world) child(n int) *resource.Resource {
	all := slices.DeleteFunc(w.children(), func(r *resource.Resource) bool { return w.inSteps(r) })
	if len(all) == 0 {
		return nil
	}
	return all[n%len(all)]
}

// inSteps says whether a step is about an object. What it sets would be lost with that.
func (w *world) inSteps(r *resource.Resource) bool {
	return slices.ContainsFunc(w.scenario.steps, func(s step) bool {
		return s.t == r.Type() && s.key.Name == r.Name() && (s.key.Namespace == r.Namespace() || s.key.Namespace == "" || r.Namespace() == w.namespace)
	})
}

func (w *world) children() (out []*resource.Resource) {
	for _, c := range w.operator.Children {
		for _, r := range w.server.List(c.Type) {
			if name, _ := r.Label(w.ownership()); name == w.operator.Name && !r.IsDeleting() {
				out = append(out, r)
			}
		}
	}
	return out
}

// tamper changes a field of a child that the handler wants, so that the operator has to put it
// back. Children that are never changed are left alone.
func (w *world) tamper(n int) {
	child := w.child(n)
	if child == nil {
		return
	}
	at := slices.IndexFunc(w.operator.Children, func(c config.Child) bool { return c.Type == child.Type() })
	if w.operator.Children[at].Strategy == config.OnDelete {
		return
	}
	fields := slices.DeleteFunc(w.wantedFields(child), func(path []string) bool { return isIgnored(w.operator.Children[at], path) })
	if len(fields) == 0 {
		return
	}
	path := fields[n%len(fields)]
	w.note("somebody changes %s of %s", strings.Join(path, "."), named(child.Type(), child.Key()))
	_, _ = w.server.Change(child.Type(), child.Key(), func(o map[string]any) { setText(o, path, "tampered") })
}

// isIgnored says whether a field is one of IgnoreFields, or in one.
func isIgnored(c config.Child, path []string) bool {
	return slices.ContainsFunc(c.IgnoreFields, func(text string) bool {
		ignored, err := fieldpath.Parse(text)
		if err != nil || len(ignored) > len(path) {
			return false
		}
		for i, step := range ignored {
			if !step.Any && step.Field != path[i] {
				return false
			}
		}
		return true
	})
}

// wantedFields returns the paths of texts that the handler wants in a child.
func (w *world) wantedFields(child *resource.Resource) (out [][]string) {
	for _, p := range w.running() {
		for _, ref := range child.OwnerReferences() {
			key := child.Key()
			key.Name = ref.Name
			object := p.proxy.desired(key, child)
			if object == nil {
				key.Namespace = ""
				object = p.proxy.desired(key, child)
			}
			if object != nil {
				live := child.Unstructured().Object
				eachText(object, nil, func(path []string) {
					if path[0] == "data" || path[0] == "spec" || path[0] == "stringData" {
						if _, ok := textAt(live, path); ok {
							out = append(out, slices.Clone(path))
						}
					}
				})
				return out
			}
		}
	}
	return nil
}

// wanted returns which of some desired children is this one, nil if none is, or if the handler
// leaves some of its fields to others.
func wanted(desired []any, child *resource.Resource) map[string]any {
	for _, d := range desired {
		inner, wishes := encode.Inner(d)
		if _, kept := inner.(encode.Kept); kept || len(wishes.Left) > 0 {
			continue
		}
		t, key, err := encode.Identity(d)
		if err != nil || t != child.Type() || key.Name != child.Name() || key.Namespace != "" && key.Namespace != child.Namespace() {
			continue
		}
		if object, err := encode.Map(inner); err == nil {
			return object
		}
	}
	return nil
}

// eachText calls do with the path of each text in a tree of maps.
func eachText(v any, path []string, do func(path []string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			eachText(v[name], append(path, name), do)
		}
	case string:
		if len(path) > 0 {
			do(path)
		}
	}
}

func textAt(v any, path []string) (string, bool) {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	text, ok := v.(string)
	return text, ok
}

func setText(object map[string]any, path []string, text string) {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	if object != nil {
		object[path[len(path)-1]] = text
	}
}

// touch gives a parent an annotation, and takes it off later.
func (w *world) touch(parent *resource.Resource) {
	const annotation = "storm.roperator.com/touched"
	set := func(value any) func(o map[string]any) {
		return func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			held, _ := meta["annotations"].(map[string]any)
			if held == nil {
				held = map[string]any{}
			}
			if meta["annotations"] = held; value == nil {
				delete(held, annotation)
			} else {
				held[annotation] = value
			}
		}
	}
	name := named(parent.Type(), parent.Key())
	w.note("somebody annotates %s", name)
	_, _ = w.server.Change(parent.Type(), parent.Key(), set("yes"))
	w.later(func() {
		w.note("somebody takes the annotation off %s", name)
		_, _ = w.server.Change(parent.Type(), parent.Key(), set(nil))
	})
}

// disturbRelated changes an object of the scenario that is no parent, or takes it away, and puts
// it back as it was.
func (w *world) disturbRelated(a act) {
	all := w.related()
	if len(all) == 0 {
		return
	}
	r := all[a.N%len(all)]
	name := named(r.Type(), r.Key())
	if w.mu.Lock(); w.mu.disturbed[name] {
		w.mu.Unlock()
		return // it isn't as it was
	}
	w.mu.disturbed[name] = true
	w.mu.Unlock()
	var restore func()
	if a.Verb == "replace-related" && w.holdsOthers(r) {
		a.Verb = "change-related" // what goes with it wouldn't come back
	}
	if a.Verb == "replace-related" {
		restore = w.replaceRelated(r, name)
	} else {
		restore = w.changeRelated(r, name, a.N)
	}
	w.later(func() {
		restore()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.mu.disturbed, name)
	})
}

// related returns the objects that a parent may refer to, children aside.
func (w *world) related() (all []*resource.Resource) {
	for _, r := range w.operator.Related {
		for _, one := range w.server.List(r.Type) {
			if _, child := one.Label(w.ownership()); !child && one.Type() != w.operator.Parent && len(one.Finalizers()) == 0 && !one.IsDeleting() {
				all = append(all, one)
			}
		}
	}
	return all
}

// holdsOthers says whether other objects go with an object.
func (w *world) holdsOthers(r *resource.Resource) bool {
	if r.Type() == k8s.Namespace {
		return true
	}
	for _, k := range w.kinds {
		for _, other := range w.server.List(k.Type) {
			if slices.ContainsFunc(other.OwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == r.UID() }) {
				return true
			}
		}
	}
	return false
}

// replaceRelated deletes an object, and returns what creates it anew.
func (w *world) replaceRelated(r *resource.Resource, name string) (restore func()) {
	w.note("somebody deletes %s", name)
	if w.server.Delete(r.Type(), r.Key()) != nil {
		return func() {}
	}
	return func() {
		w.note("somebody creates %s anew", name)
		_ = w.create(r.Unstructured().Object)
	}
}

// changeRelated changes a text in an object, and returns what changes it back.
func (w *world) changeRelated(r *resource.Resource, name string, n int) (restore func()) {
	was := r.Unstructured().Object
	var paths [][]string
	eachText(was, nil, func(path []string) {
		if path[0] == "data" || path[0] == "spec" {
			paths = append(paths, slices.Clone(path))
		}
	})
	if len(paths) == 0 {
		return func() {}
	}
	path := paths[n%len(paths)]
	text, _ := textAt(was, path)
	other := "changed"
	if r.Type().Kind == "Secret" {
		other = "Y2hhbmdlZA==" // in base64
	} else if n, err := strconv.Atoi(text); err == nil {
		other = strconv.Itoa(n + 7919) // the scenario's next one is likelier to be n+1
	}
	w.note("somebody changes %s of %s", strings.Join(path, "."), name)
	_, _ = w.server.Change(r.Type(), r.Key(), func(o map[string]any) { setText(o, path, other) })
	return func() {
		_, _ = w.server.Change(r.Type(), r.Key(), func(o map[string]any) {
			if is, _ := textAt(o, path); is == other { // the scenario may have changed it meanwhile
				w.note("somebody changes it back")
				setText(o, path, text)
			}
		})
	}
}

// later does something in a while, at the latest when the faults end.
func (w *world) later(do func()) {
	w.undone.Go(func() {
		timer := time.NewTimer(w.pace.undo)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.healed:
		}
		do()
		w.changed()
	})
}
