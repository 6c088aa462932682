package sim

import (
	"context"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// checkForeign sees to it that what is nobody's is as its creator left it. Only
// its creator deletes it.
func (w *world) checkForeign() {
	live := w.live()
	w.mu.Lock()
	foreign := w.mu.foreign
	w.mu.Unlock()
	for _, uid := range sorted(foreign) {
		if r := live[uid]; r != nil && r.ResourceVersion() != foreign[uid] {
			w.Violated("%s, which is foreign, was changed", r)
		}
	}
}

// checkCluster compares the cluster with what the handler wants.
func (w *world) checkCluster() {
	w.checkForeign()
	live := w.live()
	children := map[types.UID][]*resource.Resource{}
	for _, uid := range sorted(live) {
		r := live[uid]
		owner := metaController(r)
		if owner == "" {
			continue
		}
		if live[owner] == nil {
			w.Violated("%s is an orphan of %s", r, owner)
		}
		if isChildOf(r, owner) {
			children[owner] = append(children[owner], r)
		}
	}
	for _, parent := range w.server.List(parentType()) {
		w.checkParent(parent, children[parent.UID()])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range sorted(w.mu.allocated) {
		if live[uid] == nil && w.restores.Load() == 0 {
			w.Violated("what was allocated for %s has leaked", uid)
		}
	}
}

func (w *world) checkParent(parent *resource.Resource, children []*resource.Resource) {
	if outside := w.script.is(inNamespaces) && parent.Namespace() == "ns3"; outside || w.isAside(parent.Labels()) {
		if w.isHeld(parent) && (outside || w.script.is(dense) || w.wasShown(parent.UID())) {
			w.Violated("%s has the finalizer, though it isn't selected", parent)
		}
		if outside && (len(children) > 0 || parent.Generation() > 1) {
			w.Violated("%s, which is in another namespace, was taken care of", parent)
		}
		return
	}
	if fails(parent) {
		return
	}
	if parent.IsDeleting() {
		w.Violated("%s is still there, with finalizers %q", parent, parent.Finalizers())
		return
	}
	if !w.script.is(bareHandler) && !slices.Contains(parent.Finalizers(), finalizer) {
		w.Violated("%s has no finalizer", parent)
	}
	if slices.Contains(parent.Finalizers(), former) {
		w.Violated("%s still has the former finalizer", parent)
	}
	related := digest(w.relatedTo(parent))
	want := w.desired(parent, w.firstOf(parent), related)
	lost := w.checkChildren(parent, want, children)
	held, _ := parent.Field("status")
	status, _ := held.(map[string]any)
	if w.script.is(withReadiness) {
		w.checkConditions(parent)
		delete(status, "conditions")
	}
	expected := statusOf(parent, children, related)
	expected["observedGeneration"] = parent.Generation()
	if lost { // a write fails, so the generation isn't observed
		delete(status, "observedGeneration")
		delete(expected, "observedGeneration")
	}
	if !reflect.DeepEqual(status, expected) {
		w.Violated("%s has the status %v, not %v", parent, status, expected)
	}
}

// isHeld says whether a parent has a finalizer of the operator.
func (w *world) isHeld(parent *resource.Resource) bool {
	return slices.Contains(parent.Finalizers(), finalizer) || slices.Contains(parent.Finalizers(), former)
}

// firstOf returns the UID of the first ConfigMap of a parent, "" if it isn't there.
func (w *world) firstOf(parent *resource.Resource) types.UID {
	if r := w.server.Get(k8s.ConfigMap, inNamespace(parent.Name()+"-0")); r != nil && isChildOf(r, parent.UID()) {
		return r.UID()
	}
	return ""
}

// loses says whether a name that a parent wants belongs to another client, in which case a write fails
// and nothing is deleted.
func (w *world) loses(parent *resource.Resource) bool {
	return slices.ContainsFunc(named(parent), func(child string) bool {
		t, key := object(child)
		live := w.server.Get(t, key)
		return live != nil && metaController(live) != parent.UID()
	})
}

// checkChildren compares the children of a parent with those that are desired. lost says whether a name
// that it wants belongs to another client: see loses.
func (w *world) checkChildren(parent *resource.Resource, want []map[string]any, children []*resource.Resource) (lost bool) {
	children, lost = slices.Clone(children), w.loses(parent)
	for _, d := range want {
		meta, _ := d["metadata"].(map[string]any)
		kind, _ := d["kind"].(string)
		name, _ := meta["name"].(string)
		t, key := object(kind + "/" + name)
		n := slices.IndexFunc(children, func(c *resource.Resource) bool { return c.Type() == t && c.Key() == key })
		if n >= 0 {
			w.checkChild(children[n], d)
			children = slices.Delete(children, n, n+1)
			continue
		}
		live := w.server.Get(t, key)
		label := ""
		if live != nil {
			label, _ = live.Label(tracking)
		}
		switch {
		case live == nil:
			w.Violated("%s %s of %s is missing", kind, name, parent)
		case metaController(live) == parent.UID():
			w.Violated("%s of %s lacks its labels", live, parent)
		case metaController(live) == "" && label == "" && t == k8s.ConfigMap && w.script.is(withAdoption):
			w.Violated("%s hasn't adopted %s", parent, live)
		}
	}
	for _, c := range children {
		if !lost {
			w.Violated("%s of %s isn't wanted", c, parent)
		}
	}
	return lost
}

// wasShown says whether a process that still runs has synced a parent. Nobody
// else learns that it has left the selector.
func (w *world) wasShown(uid types.UID) bool {
	w.mu.Lock()
	running := slices.Collect(maps.Values(w.mu.processes))
	w.mu.Unlock()
	for _, p := range running {
		p.mu.Lock()
		_, shown := p.mu.shown[uid]
		p.mu.Unlock()
		if shown {
			return true
		}
	}
	return false
}

func (w *world) checkChild(live *resource.Resource, want map[string]any) {
	w.mu.Lock()
	_, theirs := w.mu.theirs[live.UID()]
	w.mu.Unlock()
	for _, field := range []string{"data", "spec"} {
		held, _ := live.Field(field)
		wanted := want[field]
		if w.script.is(dense) && w.onDelete(live.Type().Kind) {
			continue // it isn't renewed
		}
		if wanted == nil || reflect.DeepEqual(held, wanted) || theirs && holds(held, wanted) {
			continue
		}
		w.Violated("%s has %s %v, not %v", live, field, held, wanted)
	}
	meta, _ := want["metadata"].(map[string]any)
	wanted, _ := meta["labels"].(map[string]any)
	for name, value := range wanted {
		if held, _ := live.Label(name); held != value {
			w.Violated("%s has label %s=%s, not %v", live, name, held, value)
		}
	}
	if live.IsDeleting() {
		w.Violated("%s is still being deleted", live)
	}
	if n := len(live.OwnerReferences()); n != 1 {
		w.Violated("%s has %d owner references", live, n)
	}
}

// holds says whether all that is wanted is there, whatever else is.
func holds(held, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		held, _ := held.(map[string]any)
		for name, value := range wanted {
			if !holds(held[name], value) {
				return false
			}
		}
		return true
	case []any:
		held, _ := held.([]any)
		for _, value := range wanted {
			if !slices.ContainsFunc(held, func(h any) bool { return holds(h, value) }) {
				return false
			}
		}
		return true
	}
	return held == wanted
}

// checkEnd holds what there is at the end against what the handlers want, and sees to it that the operators
// are silent then.
func (w *world) checkEnd() {
	w.mu.Lock()
	quiet := len(w.mu.requests)
	w.mu.Unlock()
	w.checkCluster()
	w.checkUnchanged("the operators", w.script.silence())
	w.checkSilence(quiet)
	w.checkWatches()
	w.checkUnrelated()
	w.checkSilence(quiet)
}

// checkUnchanged sees to it that nothing changes without a cause.
func (w *world) checkUnchanged(who string, within time.Duration) {
	w.mu.Lock()
	before := w.mu.changes
	w.mu.Unlock()
	w.pause(within)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.changes != before {
		w.Violated("%s changed something, though there was nothing to do", who)
	}
}

// isUneasy says whether an operator has something to try again: a parent fails, or loses a name.
func (w *world) isUneasy() bool {
	return slices.ContainsFunc(w.server.List(parentType()), func(p *resource.Resource) bool {
		return !w.isAside(p.Labels()) && (fails(p) || w.loses(p))
	})
}

// checkSilence sees to it that a settled operator asks for nothing but watches
// and leases.
func (w *world) checkSilence(from int) {
	if w.isUneasy() {
		return
	}
	w.mu.Lock()
	later := slices.Clone(w.mu.requests[from:])
	w.mu.Unlock()
	for _, name := range later {
		if !strings.HasPrefix(name, "WATCH ") && !strings.Contains(name, "/leases") {
			w.Violated("settled, but for %s", name)
		}
	}
}

// checkStop sees to it that a process ends which is told to. It returns with the
// process.
func (p *process) checkStop(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	select {
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<20)
		p.Violated("%s doesn't end", p.Name)
		p.Note("%s", stacks[:runtime.Stack(stacks, true)])
		<-ended
	case <-ended:
	}
}
