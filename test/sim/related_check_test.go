package sim

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
)

// checkRelated holds the related objects that a handler is shown against their history.
func (o *operator) checkRelated(req *handler.SyncRequest) {
	if !o.script.is(withRelated) {
		return
	}
	refs, allowed := refsOf(req.Parent)
	if !allowed {
		o.Violated("%s is shown, though it refers to what must be refused", req.Parent)
	}
	for _, wrong := range o.witness.Shown(req.Parent.UID(), refs, slices.Collect(req.Related.All())) {
		o.Violated("%s: %s", req.Parent, wrong)
	}
}

// watched returns what a watch is for, false if that isn't related objects.
func watched(at *url.URL) (r past.Ref, related bool) {
	parts := strings.Split(at.Path, "/")
	for i, part := range parts {
		if part == "namespaces" && i+2 < len(parts) {
			r.Namespace = parts[i+1]
		}
	}
	r.Kind = map[string]string{"sources": "Source", "zones": "Zone", "configmaps": "ConfigMap", "parents": "Parent"}[parts[len(parts)-1]]
	query := at.Query()
	r.Selector = query.Get("labelSelector")
	_, r.Name, _ = strings.Cut(query.Get("fieldSelector"), "metadata.name=")
	own := r.Kind == "Parent" && (r.Selector == "" || strings.Contains(r.Selector, aside)) && r.Name == "" || strings.Contains(r.Selector, tracking)
	return r, r.Kind != "" && !own
}

// checkWatches sees to it that a process watches no related objects but those that its
// parents refer to, and those only once.
func (w *world) checkWatches() {
	if w.isSilent() {
		return
	}
	refs := w.referredTo()
	many := map[past.Ref]int{}
	for r := range refs {
		many[past.Ref{Kind: r.Kind, Namespace: r.Namespace}]++
	}
	w.mu.Lock()
	running := slices.Collect(maps.Values(w.mu.processes))
	w.mu.Unlock()
	most := 1
	if w.script.is(withShards) { // each of which is an engine
		most = shards
	}
	for _, p := range running {
		p.mu.Lock()
		open := maps.Clone(p.mu.watches)
		p.mu.Unlock()
		for r, n := range open {
			_, wanted := refs[r]
			together := r.Name == "" && r.Selector == "" && many[r] > mostWatches*3/4
			if n > 0 && !wanted && !together || n > most {
				w.Violated("%s has %d watches of %s", p.Name, n, r)
			}
		}
	}
}

// checkUnrelated changes what nobody refers to, which must concern nobody.
func (w *world) checkUnrelated() {
	if !w.script.is(withRelated) || w.isUneasy() {
		return
	}
	refs := w.referredTo()
	before := w.sumOfCalls()
	for _, t := range []resource.Type{sourceType(), zoneType()} {
		for _, r := range w.server.List(t) {
			if !refersTo(refs, r) {
				w.server.Change(t, r.Key(), func(o map[string]any) { nested(o, "spec")["value"] = "unrelated" }) //nolint:errcheck // it is there
				w.count(sawUnrelated)
			}
		}
	}
	<-time.After(time.Minute)
	if now := w.sumOfCalls(); now != before {
		w.Violated("the handler was called %d times, though nothing has changed that a parent refers to", now-before)
	}
}
