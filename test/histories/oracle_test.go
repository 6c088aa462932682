package histories

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
)

// settle ends all that was in the way, and waits until the operators have done what
// follows: retries have a backoff, a lease may have to expire, and conflict loops are
// remembered for a while.
func (w *world) settle(verbose bool) {
	w.plans.heal()
	w.server.Release()
	w.letGo()
	for range 3 {
		w.pass(9 * time.Second)
		w.startEnded(verbose)
		w.server.CollectGarbage()
	}
	w.pass(40 * time.Second)
}

// pass lets time pass in which nobody but the operators does anything.
func (w *world) pass(d time.Duration) { w.wait(d); w.wait(asap) }

// changed is told of each change of an object, under the server's lock.
func (w *world) changed(was, is map[string]any) {
	now := is
	if is == nil {
		now = was
	}
	kind, _ := now["kind"].(string)
	if kind == "Lease" || kind == "Event" {
		return
	}
	meta := inside(now, "metadata")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Note(was, is)
	w.mu.changes++
	state := fmt.Sprint(kind, "/", meta["name"], " at ", meta["resourceVersion"])
	w.mu.collided = w.mu.collided || w.mu.states[state] && is != nil
	w.mu.states[state] = true
	gone := ""
	if is == nil {
		gone = ", gone"
	}
	w.Note("  changed: %s %s %s at %s%s", kind, meta["name"], meta["uid"], meta["resourceVersion"], gone)
	if kind != "Parent" || was == nil || w.script.is(bareHandler) {
		return
	}
	before := inside(was, "metadata")
	text, _ := before["uid"].(string)
	mine, _ := inside(before, "labels")["mine"].(string)
	has, left := holds(before, finalizer) || holds(before, formerFinalizer), is != nil && (holds(meta, finalizer) || holds(meta, formerFinalizer))
	if has && !left && before["deletionTimestamp"] != nil && !w.mu.ended[types.UID(text)] && (mine == "yes" || !w.script.is(withSelector)) {
		w.Violated("Parent %s, %s, lost its finalizer before it was finalized", meta["name"], text)
	}
}

func holds(meta map[string]any, finalizer string) bool {
	held, _ := meta["finalizers"].([]any)
	return slices.Contains(held, any(finalizer))
}

// check looks at what has become of everything, at whether that is all, and at whether
// a fresh operator sees it as the old one does.
func (w *world) check(verbose bool) {
	for _, problem := range w.problems() {
		w.Violated("%s", problem)
	}
	w.checkSilence("the operators")
	old := w.sizes()
	for _, r := range w.replicas {
		r.Stop()
		<-r.done
	}
	w.replicas = w.replicas[:1]
	w.start(w.replicas[0], verbose)
	w.checkSilence("a fresh operator")
	if fresh := w.sizes(); !reflect.DeepEqual(old[:1], fresh) {
		w.Violated("the operator holds %v, a fresh one %v", old[0], fresh[0])
	}
}

// checkSilence looks whether anything changes when there is no cause.
func (w *world) checkSilence(who string) {
	w.mu.Lock()
	before := w.mu.changes
	w.mu.Unlock()
	w.pass(30 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.changes != before {
		w.Violated("%s changed something, though there was nothing to do", who)
	}
}

// sizes returns how much each replica holds, first that of the leader, without what is
// empty. Counters of conflicts and of missing children may stay as long as the parent, and
// what a parent waited for until its handler answers again, and that an object was said
// to be deleted as long as the object. A parent refers to what it did before as long as its
// handler can't say to what it does now. A standby holds nothing but what is watched.
func (w *world) sizes() []map[string]int {
	failing := slices.ContainsFunc(w.server.List(parentType()), fails)
	silent := slices.ContainsFunc(w.server.List(parentType()), func(p *resource.Resource) bool { return textOf(p, "spec", "fail") == "relate" })
	var out []map[string]int
	for _, r := range w.replicas {
		of := r.manager.Engine().Sizes()
		maps.DeleteFunc(of, func(name string, n int) bool {
			switch name {
			case "undeleted":
				return true
			case "loops", "missing children by parent":
				return n <= of["parents by UID"]
			case "waiting", "awaited by parent":
				return n == 0 || failing && n <= len(sharedNames())*of["parents by UID"]
			case "parents that refer", "related queries", "related watches", "related objects":
				return n == 0 || silent
			}
			return n == 0
		})
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b map[string]int) int { return b["remembered parents"] - a["remembered parents"] })
	for _, standby := range out[1:] {
		watched := []string{"orphans"}
		if standby["orphans"] > 0 {
			watched = append(watched, "unlabelled") // the same, by parent
		}
		for name, n := range standby {
			if !strings.HasPrefix(name, "objects ") && !strings.Contains(name, " by ") && !slices.Contains(watched, name) {
				w.Violated("a standby holds %d of: %s", n, name)
			}
		}
	}
	return out
}

// problems says what isn't as the handler wants it.
func (w *world) problems() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	parents := map[types.UID]*resource.Resource{}
	for _, p := range w.server.List(parentType()) {
		parents[p.UID()] = p
		switch {
		case !w.selected(p):
			if slices.Contains(p.Finalizers(), finalizer) || slices.Contains(p.Finalizers(), formerFinalizer) {
				say("%s, which isn't selected, still has a finalizer", p)
			}
		case p.IsDeleting() && !fails(p):
			say("%s is still there, though it was deleted", p)
		case !p.IsDeleting() && !fails(p):
			out = append(out, w.problemsOf(p)...)
		}
	}
	for _, kind := range []string{"ConfigMap", "Part"} {
		for _, child := range w.server.List(typeOf(kind)) {
			controller, name := controllerOf(child), kind+"/"+child.Name()
			switch p := parents[controller]; {
			case p == nil && controller != "":
				say("%s is there, though its parent %s is gone", child, controller)
			case p != nil && labelOf(child) != "" && w.serves(p) && !slices.Contains(wanted(p), name) && !w.loses(p):
				say("%s is there, though %s doesn't want it", child, p)
			}
		}
	}
	return out
}

// selected says whether a parent is the operator's.
func (w *world) selected(p *resource.Resource) bool {
	mine, _ := p.Label("mine")
	return mine == "yes" || !w.script.is(withSelector)
}

// serves says whether the operator looks after the children of a parent.
func (w *world) serves(p *resource.Resource) bool {
	return !p.IsDeleting() && !fails(p) && w.selected(p)
}

// loses says whether a name that a parent wants belongs to somebody else. Then a write
// fails, and nothing is deleted.
func (w *world) loses(p *resource.Resource) bool {
	return slices.ContainsFunc(wanted(p), func(name string) bool {
		t, k := objectOf(name)
		child := w.server.Get(t, k)
		return child != nil && controllerOf(child) != p.UID()
	})
}

// problemsOf says what isn't as it is to be with a parent and its children.
func (w *world) problemsOf(p *resource.Resource) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if slices.Contains(p.Finalizers(), formerFinalizer) {
		say("%s still has the former finalizer", p)
	}
	for _, name := range wanted(p) {
		t, k := objectOf(name)
		child := w.server.Get(t, k)
		switch {
		case child == nil:
			say("%s has no %s", p, name)
		case controllerOf(child) == p.UID():
			out = append(out, w.problemsOfChild(p, child)...)
		case controllerOf(child) == "" && labelOf(child) == "" && w.script.is(withAdoption) && t == typeOf("ConfigMap"):
			say("%s hasn't adopted %s", p, name)
		}
	}
	var own []*resource.Resource
	for _, kind := range []string{"ConfigMap", "Part"} {
		for _, child := range w.server.List(typeOf(kind)) {
			if labelOf(child) == p.UID() && controllerOf(child) == p.UID() {
				own = append(own, child)
			}
		}
	}
	for name, want := range statusOf(p, own, w.relatedTo(p)) {
		if got, _ := p.Field("status", name); got != want {
			say("status.%s of %s is %q, not %q", name, p, got, want)
		}
	}
	if seen, _ := p.Field("status", "observedGeneration"); seen != p.Generation() && !w.loses(p) {
		say("%s is of generation %d, and %v was observed", p, p.Generation(), seen)
	}
	return out
}

func (w *world) problemsOfChild(p, child *resource.Resource) (out []string) {
	kind := child.Type().Kind
	if labelOf(child) != p.UID() {
		out = append(out, fmt.Sprintf("%s lacks its label", child))
	}
	at := slices.IndexFunc(w.config().Children, func(c config.Child) bool { return c.Type == child.Type() })
	want := contents(p, kind, w.relatedTo(p))
	if got, _ := child.Field(contentsField(kind)); w.script.strategies[at] != config.OnDelete && !reflect.DeepEqual(got, any(want)) {
		out = append(out, fmt.Sprintf("%s has %v, not %v", child, got, want))
	}
	return out
}
