package sim

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// partIn returns the Part that a write names, nil if there is none or the write concerns
// something else.
func (p *process) partIn(x *faults.Exchange) *resource.Resource {
	if !x.Write || !strings.Contains(x.URL.Path, "/parts") {
		return nil
	}
	return p.server.Get(partType(), inNamespace(lastOf(x.Name)))
}

// parentIn returns the parent that a write names, as partIn does.
func (p *process) parentIn(x *faults.Exchange) *resource.Resource {
	if x.Method == http.MethodGet || !strings.Contains(x.URL.Path, "/parents/") {
		return nil
	}
	return p.server.Get(parentType(), inNamespace(lastOf(strings.TrimSuffix(x.Name, "/status"))))
}

// checkDone holds a write that was carried out against what the pass knew. was is the Part that
// it concerns, as it was before.
func (p *process) checkDone(x *faults.Exchange, was *resource.Resource, code int) {
	if !p.script.is(withReadiness) || !x.Write || code >= 300 {
		return
	}
	switch kind := path.Base(path.Dir(strings.TrimSuffix(x.Name, "/status"))); {
	case kind == "parts":
		p.checkGate(x, partType().Kind)
		p.checkStep(x, was, p.partIn(x))
	case kind == "secrets":
		p.checkGate(x, "Secret")
	case kind == "parents" && strings.HasSuffix(x.Name, "/status"):
		p.checkReady(lastOf(strings.TrimSuffix(x.Name, "/status")))
	}
}

// checkStep sees to it that operators don't make more Parts of a parent unavailable than they
// may.
func (p *process) checkStep(x *faults.Exchange, was, is *resource.Resource) {
	method, name := x.Method, x.Name
	part := lastOf(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	pass := p.mu.passes[x.Owner]
	if pass == nil || pass.parts[part].goal == nil {
		return // it isn't wanted
	}
	if was != nil && is != nil && was.UID() == is.UID() && was.Generation() == is.Generation() && !is.IsDeleting() {
		return // labels
	}
	w := p.world
	shown := pass.parts[part]
	w.mu.Lock()
	drift := w.mu.written[part].isAt(pass.parent, shown.goal)
	others := p.othersPendingLocked(pass, part, !shown.current)
	if method == http.MethodPost || !drift { // a deletion is for the sake of what follows
		w.mu.written[part] = writtenPart{pass.parent, shown.goal, is == nil || !isCurrent(is.Unstructured().Object)}
	}
	w.mu.Unlock()
	limit := p.script.maxUnavailable()
	if method == http.MethodPost || drift || limit == 0 {
		return // isn't bounded
	}
	if shown.current {
		pass.stepped[part] = struct{}{}
	}
	p.count(sawStep)
	if len(others) >= limit {
		p.Violated("%s: %s while %q aren't ready since they were written", p.Name, name, others)
	}
	if n := pass.down(p.script) + len(pass.stepped); shown.current && n > limit {
		p.Violated("%s: %s makes it %d unavailable Parts", p.Name, name, n)
	}
}

// checkGate sees to it that a child is created after the Part that it needs was ready, unless the
// process has deleted it to create it anew, or could not find out whether the Part differs: then its readiness decides (S251).
func (p *process) checkGate(x *faults.Exchange, kind string) {
	method, name := x.Method, x.Name
	needed := p.script.needOf(kind, lastOf(name))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch _, again := p.mu.anew[childOf(name)]; {
	case method == http.MethodDelete:
		p.mu.anew[childOf(name)] = struct{}{}
		return
	case method != http.MethodPost:
		return
	case again, needed == "":
		delete(p.mu.anew, childOf(name))
		return
	}
	pass := p.mu.passes[x.Owner]
	if pass == nil {
		p.Violated("%s: %s after no answer of the handler", p.Name, name)
		return
	}
	need := pass.parts[needed]
	p.world.mu.Lock()
	drift := p.world.mu.written[needed].isAt(pass.parent, need.goal)
	p.world.mu.Unlock()
	_, stepped := pass.stepped[needed]
	queued := p.script.maxUnavailable() > 0 && !drift && !stepped // its turn comes later
	_, unsure := p.mu.unsure[x.Owner]
	if !need.current || !need.atGoal && !queued && !unsure {
		p.Violated("%s: %s before the Part was ready: %+v", p.Name, name, need)
	}
	p.count(sawGate)
}

// checkReady sees to it that a parent isn't said to be ready before its Parts are.
func (p *process) checkReady(parent string) {
	live := p.server.Get(parentType(), inNamespace(parent))
	if live == nil || conditionOf(live.Unstructured().Object, "Ready") != "True" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pass := p.mu.passes[parent]
	switch {
	case pass == nil, pass.parent != live.UID():
		return
	case pass.none || len(pass.failed) > 0:
		p.Violated("%s: %s is said to be ready after a pass that failed", p.Name, live)
	}
	_, unsure := p.mu.unsure[parent]
	for name, part := range pass.parts {
		if !part.current || !part.atGoal && !unsure {
			p.Violated("%s: %s is said to be ready, though the Part %s was shown otherwise: %+v", p.Name, live, name, part)
		}
	}
	p.count(sawReady)
}

// checkTimes sees to it that the time of a condition changes with its status alone.
func (w *world) checkTimes(was, is map[string]any) {
	before := conditionsOf(was)
	for name, now := range conditionsOf(is) {
		old, ok := before[name]
		if ok && old["status"] == now["status"] && old["lastTransitionTime"] != now["lastTransitionTime"] {
			w.Violated("the condition %s of %s changed its time alone, from %v to %v", name, briefOf(is).Metadata.Name, old, now)
		}
	}
}

// noteCurrentLocked notes that a Part is ready.
func (w *world) noteCurrentLocked(is map[string]any) {
	if is["kind"] != partType().Kind || !isCurrent(is) {
		return
	}
	name := briefOf(is).Metadata.Name
	if held, ok := w.mu.written[name]; ok {
		held.pending = false
		w.mu.written[name] = held
	}
}

// checkConditions sees to it that a parent that has all it wants is said to be ready.
func (w *world) checkConditions(parent *resource.Resource) {
	conditions := conditionsOf(parent.Unstructured().Object)
	for name, want := range map[string]string{"Ready": "True", "Reconciling": "False", "Stalled": "False", "Synced": "True"} {
		c := conditions[name]
		if c["status"] != want || c["observedGeneration"] != parent.Generation() || c["lastTransitionTime"] == nil {
			w.Violated("%s has the condition %s %v, not %s", parent, name, c, want)
		}
	}
}

// teardownOrder is that of config: what goes last comes first.
func teardownOrder() []resource.Type { return []resource.Type{k8s.ConfigMap, k8s.Secret, partType()} }

// checkTeardown sees to it that children of a parent that ends go in their order: while one that
// the process knows of is there, none of a type that goes later is deleted.
func (p *process) checkTeardown(name string, uid types.UID) {
	if !p.script.is(withTeardown) {
		return
	}
	live := p.live()
	child := live[uid]
	if child == nil {
		return
	}
	parent := live[metaController(child)]
	p.mu.Lock()
	defer p.mu.Unlock()
	if parent == nil {
		return
	}
	if _, tearing := p.mu.finalized[parent.UID()]; !tearing {
		return
	}
	p.count(sawTeardown)
	at := slices.Index(teardownOrder(), child.Type())
	for _, other := range live {
		if slices.Index(teardownOrder(), other.Type()) > at && p.knowsLocked(other) && isChildOf(other, parent.UID()) && !other.IsDeleting() {
			p.Violated("%s: %s while %s is there", p.Name, name, other)
		}
	}
}

// knowsLocked says whether the process was told of an object.
func (p *process) knowsLocked(r *resource.Resource) bool {
	_, shown := p.mu.shown[r.UID()]
	return shown || p.mu.told[r.Type().Kind+" "+r.Key().String()].uid == r.UID()
}

// checkLetGo sees to it that a parent isn't let go while a child is there that the process knows
// of.
func (p *process) checkLetGo(name string, was *resource.Resource) {
	if was == nil || !p.script.is(withTeardown) || !was.IsDeleting() || !slices.Contains(was.Finalizers(), finalizer) {
		return
	}
	if is := p.server.Get(parentType(), was.Key()); is != nil && is.UID() == was.UID() && slices.Contains(is.Finalizers(), finalizer) {
		return
	}
	if p.isAside(was.Labels()) {
		return
	}
	live := p.live()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, uid := range sorted(live) {
		if other := live[uid]; isChildOf(other, was.UID()) && p.knowsLocked(other) {
			p.Violated("%s: %s lets %s go while %s is there", p.Name, name, was, other)
		}
	}
}

// finalizing notes that the handler has let a parent go.
func (o *operator) finalizing(req *handler.SyncRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.finalized[req.Parent.UID()] = struct{}{}
}
