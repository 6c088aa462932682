package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// changed is told of each change of an object, under the server's lock.
func (w *world) changed(was, is map[string]any) {
	before, after := briefOf(was), briefOf(is)
	w.past.Note(was, is)
	w.checkTimes(was, is)
	w.mu.Lock()
	w.noteChangeLocked(before, after, is == nil)
	had, has := slices.Contains(before.Metadata.Finalizers, foreignFinalizer), slices.Contains(after.Metadata.Finalizers, foreignFinalizer)
	_, let := w.mu.letGo[before.Metadata.UID]
	_, released := w.mu.released[before.Metadata.UID]
	_, allocated := w.mu.allocated[before.Metadata.UID]
	lost := before.isFinalized() && !after.isFinalized()
	aside := w.isAside(before.Metadata.Labels)
	if lost && aside {
		delete(w.mu.allocated, before.Metadata.UID) // is whose the parent is now
	}
	w.noteLeaderLocked(is)
	w.noteEndLocked(before, after, is == nil)
	w.noteCurrentLocked(is)
	if was == nil {
		w.mu.first[after.Metadata.UID] = is
	}
	w.mu.Unlock()
	if was != nil && is != nil && w.onDelete(before.Kind) && !w.acting.Load() && !sameFields(was, is) {
		w.Violated("%s %s, %s, was changed, though its strategy is OnDelete", before.Kind, before.Metadata.Name, before.Metadata.UID)
	}
	if had && !has && !let {
		w.Violated("%s %s, %s, lost the finalizer of another", before.Kind, before.Metadata.Name, before.Metadata.UID)
	}
	if before.Kind != parentType().Kind {
		return
	}
	switch {
	case aside, w.script.is(bareHandler):
	case lost && !released:
		w.Violated("Parent %s, %s, lost its finalizer before it was finalized", before.Metadata.Name, before.Metadata.UID)
	case lost && before.Metadata.DeletionTimestamp == "":
		w.Violated("Parent %s, %s, lost its finalizer while it wasn't being deleted", before.Metadata.Name, before.Metadata.UID)
	case is == nil && allocated && w.restores.Load() == 0:
		w.Violated("Parent %s, %s, is gone, and what was allocated for it has leaked", before.Metadata.Name, before.Metadata.UID)
	}
}

// isFinalized says whether an object has a finalizer of the operator.
func (b brief) isFinalized() bool {
	return slices.Contains(b.Metadata.Finalizers, finalizer) || slices.Contains(b.Metadata.Finalizers, former)
}

// noteEndLocked notes which parents end, and which children with them.
func (w *world) noteEndLocked(before, after brief, gone bool) {
	parent := types.UID(before.Metadata.Labels[tracking])
	switch _, ending := w.mu.ending[parent]; {
	case before.Kind == parentType().Kind && (gone || after.Metadata.DeletionTimestamp != ""):
		w.mu.ending[before.Metadata.UID] = struct{}{}
	case gone && ending && before.ownedBy(parent): // what was orphaned before is no part of the family any more
		w.mu.followed[familyKey(before)] = before.Metadata.UID
	}
}

// ownedBy says whether an object has an owner reference to a parent.
func (b brief) ownedBy(parent types.UID) bool {
	return slices.ContainsFunc(b.Metadata.OwnerReferences, func(ref struct{ UID types.UID }) bool { return ref.UID == parent })
}

// familyKey is the key of a child of one instance of its parent.
func familyKey(child brief) string {
	return child.Metadata.Labels[tracking] + "/" + child.Kind + " " + child.Metadata.Namespace + "/" + child.Metadata.Name
}

// checkAgain sees to it that what a process has once known of, and what went
// along with its parent, isn't created again.
func (p *process) checkAgain(name string, child brief) {
	p.world.mu.Lock()
	was, followed := p.world.mu.followed[familyKey(child)]
	p.world.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	_, own := p.mu.deleting[was]
	_, shown := p.mu.shown[was]
	told := p.mu.told[child.Kind+" "+child.Metadata.Namespace+"/"+child.Metadata.Name].uid == was
	if followed && !own && (shown || told) && p.restores.Load() == 0 {
		p.Violated("%s: %s, though %s went along with its parent", p.Name, name, was)
	}
}

// noteLeaderLocked counts how the lease goes from one to another.
func (w *world) noteLeaderLocked(lease map[string]any) {
	if lease["kind"] != "Lease" || briefOf(lease).Metadata.Name != "lease" { // not one of a shard or a member
		return
	}
	spec, _ := lease["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	if holder == "" || holder == w.mu.led {
		return
	}
	if w.mu.led != "" {
		w.mu.seen[sawHandover]++
	}
	w.mu.led = holder
	w.mu.seen[sawStandby]++
}

func sameFields(a, b map[string]any) bool {
	return reflect.DeepEqual(a["data"], b["data"]) && reflect.DeepEqual(a["spec"], b["spec"])
}

func (w *world) noteChangeLocked(before, after brief, gone bool) {
	now, suffix := after, ""
	if gone {
		now, suffix = before, ", gone"
	}
	if now.Kind == "Lease" || now.Kind == "Event" { // renewed every two seconds
		return
	}
	w.Note("  changed: %s %s/%s %s at %s%s", now.Kind, now.Metadata.Namespace, now.Metadata.Name, now.Metadata.UID, now.Metadata.ResourceVersion, suffix)
	w.mu.changes++
	if now.Kind == parentType().Kind {
		w.mu.names[now.Metadata.UID] = now.Metadata.Name
	}
	if w.mu.states == nil || gone {
		return
	}
	state := fmt.Sprint(now.Kind, "/", now.Metadata.Name, " at ", now.Metadata.ResourceVersion)
	_, there := w.mu.states[state]
	w.mu.unjudged = w.mu.unjudged || there
	w.mu.states[state] = struct{}{}
}

func briefOf(o map[string]any) brief {
	raw, err := json.Marshal(o)
	if err != nil {
		return brief{}
	}
	return metaIn(raw)
}

// checkWrite holds a write that is about to reach the server against the lease
// and against what guards it.
func (p *process) checkWrite(x *faults.Exchange) {
	req, name, body := x.Request, x.Name, x.Sent
	if req.Method != http.MethodGet && (strings.Contains(req.URL.Path, "/sources") || strings.Contains(req.URL.Path, "/zones")) {
		p.Violated("%s: %s, though related objects are never written", p.Name, name)
	}
	switch req.Method {
	case http.MethodPost:
		if !req.URL.Query().Has("dryRun") {
			p.checkAgain(name, metaIn(body))
		}
	case http.MethodPut:
		if metaIn(body).Metadata.ResourceVersion == "" {
			p.Violated("%s: %s is an update of whatever is there", p.Name, name)
		}
	case http.MethodDelete:
		if strings.Contains(name, "/leases/") {
			return // a member's own, or that of one that has died
		}
		p.checkFailed(x)
		var opts metav1.DeleteOptions
		if json.Unmarshal(body, &opts) != nil || opts.Preconditions == nil || opts.Preconditions.UID == nil {
			p.Violated("%s: %s is a deletion of whatever is there", p.Name, name)
			return
		}
		p.mu.Lock()
		p.mu.deleting[*opts.Preconditions.UID] = struct{}{}
		p.mu.Unlock()
		p.checkTeardown(name, *opts.Preconditions.UID)
	}
}

// checkFailed sees to it that in a pass in which a write has failed, nothing is
// deleted that isn't wanted any more.
func (p *process) checkFailed(x *faults.Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pass := p.mu.passes[x.Owner]
	if pass != nil && len(pass.failed) > 0 && !slices.Contains(pass.wanted, childOf(x.Name)) {
		p.Violated("%s: %s in a reconciliation in which %v failed", p.Name, x.Name, slices.Sorted(maps.Keys(pass.failed)))
	}
}

// checkRefused sees to it that nothing is written that no handler has asked for.
func (p *process) checkRefused(x *faults.Exchange) {
	name := x.Name
	if x.Method == http.MethodGet {
		return
	}
	parent := x.Owner
	if of, ok := strings.CutSuffix(name, "/status"); ok {
		parent = lastOf(of)
	}
	if (p.script.is(withReadiness) || p.script.is(counted)) && strings.HasSuffix(name, "/status") {
		return // which says what is in the way
	}
	live := p.server.Get(parentType(), inNamespace(parent))
	p.mu.Lock()
	defer p.mu.Unlock()
	if live != nil {
		if _, tearing := p.mu.finalized[live.UID()]; tearing {
			return // no handler has a say any more
		}
	}
	if pass := p.mu.passes[parent]; pass != nil && pass.none {
		p.Violated("%s: %s after a handler that failed", p.Name, name)
	}
}

// noteFailure notes whether a write of a child has failed.
func (p *process) noteFailure(x *faults.Exchange, code int) {
	name := x.Name
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(name, "dryRun") {
		if p.mu.unsure[x.Owner] = struct{}{}; code > 0 && code < 500 {
			delete(p.mu.unsure, x.Owner)
		}
		return
	}
	if strings.HasPrefix(name, "GET ") {
		return
	}
	switch pass := p.mu.passes[x.Owner]; {
	case pass == nil:
	case strings.HasPrefix(name, "DELETE ") && !slices.Contains(pass.wanted, childOf(name)): // they go together
	case code > 0 && code < 400 || code == http.StatusConflict || code == http.StatusNotFound:
		delete(pass.failed, name) // client-go has tried again
	default:
		pass.failed[name] = struct{}{}
	}
}

// childOf returns the resource and name that a request names.
func childOf(name string) string {
	plural, last := path.Base(path.Dir(name)), path.Base(name)
	return plural + "/" + last
}

// lastOf returns the name of the object that a request names.
func lastOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// parentOf returns the name of the parent of the child that a request is about, "" if there is none. In
// dense runs the names of children tell of no parent, but their labels and owners do.
func (p *process) parentOf(x *faults.Exchange) string {
	if slices.Contains([]string{"parents", "events", "leases"}, x.On.Resource.Resource) {
		return ""
	}
	if !p.script.is(dense) {
		name, _, _ := strings.Cut(lastOf(x.Name), "-")
		return strings.TrimSuffix(name, "?dryRun")
	}
	owner := types.UID(metaIn(x.Sent).Metadata.Labels[tracking])
	for _, t := range []resource.Type{k8s.ConfigMap, partType()} {
		if owner == "" && strings.ToLower(t.Kind)+"s" == x.On.Resource.Resource {
			if live := p.server.Get(t, inNamespace(x.On.Name)); live != nil {
				owner = metaController(live)
			}
		}
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return p.world.mu.names[owner]
}

// checkLease holds the start of a write against the lease.
func (p *process) checkLease(x *faults.Exchange) {
	name := x.Name
	if p.script.Replicas < 2 || p.restores.Load() > 0 || x.Method == http.MethodGet || strings.Contains(name, "/leases/") || strings.Contains(name, "/events/") {
		return
	}
	lease := p.server.Get(fakeapi.Leases().Type, inNamespace("lease"))
	if lease == nil {
		p.Violated("%s: %s without a lease", p.Name, name)
		return
	}
	switch holder, _ := lease.Field("spec", "holderIdentity"); holder {
	case p.Name:
	case fmt.Sprint("shards/", shards):
		p.checkShard(x)
	default:
		p.Violated("%s: %s while %v holds the lease", p.Name, name, holder)
	}
}

// checkShard holds the start of a write against the lease of the parent's shard.
func (p *process) checkShard(x *faults.Exchange) {
	parents := p.parentsOf(x)
	if len(parents) == 0 && x.Method != http.MethodPost {
		return // it has gone, of which the watch hasn't told yet: the write comes to nothing
	}
	var holders []any
	for _, parent := range parents {
		at := shard.Bucket(parent) * shards / shard.Buckets
		lease := p.server.Get(fakeapi.Leases().Type, inNamespace(fmt.Sprint("lease-shard-", at)))
		if lease == nil {
			continue
		}
		holder, _ := lease.Field("spec", "holderIdentity")
		if holder == p.Name {
			p.count(sawShard)
			return
		}
		holders = append(holders, holder)
	}
	p.Violated("%s: %s while %v hold the leases of its shards", p.Name, x.Name, holders)
}

// parentsOf returns the parents for which a write may be: those that its body names, that of
// the child as it is, and the one that has the name. A parent may have come anew.
func (p *process) parentsOf(x *faults.Exchange) []types.UID {
	sent := metaIn(x.Sent).Metadata
	out := []types.UID{types.UID(sent.Labels[tracking])}
	name := x.Owner
	if x.On.Resource.Resource == "parents" {
		name, out = x.On.Name, append(out, sent.UID)
	}
	if parent := p.server.Get(parentType(), inNamespace(name)); parent != nil {
		out = append(out, parent.UID())
	}
	for _, child := range p.live() {
		if kind := strings.ToLower(child.Type().Kind) + "s"; kind == x.On.Resource.Resource && child.Name() == x.On.Name {
			tracked, _ := child.Label(tracking)
			out = append(out, types.UID(tracked), metaController(child))
		}
	}
	return slices.DeleteFunc(out, func(uid types.UID) bool { return uid == "" })
}
