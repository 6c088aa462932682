package sim

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An operator is the handler of a process. Outside of the cluster it allocates
// something for each parent, which Finalize gives back.
type operator struct{ *process }

func configMap(parent string, i int, value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", parent, i), "labels": map[string]any{"app": value}},
		"data":     map[string]any{"value": value, value: "is set"},
	}
}

// secret says which instance of the first ConfigMap there is.
func secret(parent, value string, first types.UID) map[string]any {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": parent},
		"data": map[string]any{"value": encode(value), "first": encode(string(first))},
	}
}

// part is of a parent with these related objects.
func part(name, value string, count int, related string) map[string]any {
	items := make([]any, 0, count)
	for i := range count {
		items = append(items, map[string]any{"name": fmt.Sprint("item-", i), "value": value})
	}
	spec := map[string]any{"value": value, "items": items}
	if related != "" {
		spec["related"] = related
	}
	return map[string]any{"apiVersion": partType().APIVersion, "kind": partType().Kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// desired is what a parent shall have, given its first ConfigMap's UID, and a digest of what
// it refers to.
func (w *world) desired(parent *resource.Resource, first types.UID, related string) []map[string]any {
	value, count := specOf(parent)
	var out []map[string]any
	for _, name := range w.script.partNames(parent.Name(), count) {
		out = append(out, part(name, value, count, related))
	}
	for i := range count {
		out = append(out, configMap(parent.Name(), i, value))
	}
	if first != "" && count > 0 {
		out = append(out, secret(parent.Name(), value, first))
	}
	return out
}

func specOf(parent *resource.Resource) (value string, count int) {
	v, _ := parent.Field("spec", "value")
	value, _ = v.(string)
	n, _ := parent.Field("spec", "count")
	n64, _ := n.(int64)
	return value, int(n64)
}

func statusOf(parent *resource.Resource, children int, related string) map[string]any {
	value, _ := specOf(parent)
	status := map[string]any{"value": value, "children": int64(children)}
	if related != "" {
		status["related"] = related
	}
	return status
}

// Sync is handler.Handler's.
func (o *operator) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	uid := req.Parent.UID()
	defer o.begin(uid)()
	f := o.dice.next("sync "+req.Parent.Name(), o.dice.rates.handler, syncOutcomes()...)
	o.checkSnapshot(req)
	if err := o.Sleep(ctx, f.Delay/10); err != nil {
		return nil, err
	}
	o.enter(req.Parent.Name(), &pass{none: true, failed: map[string]struct{}{}})
	switch f.Outcome {
	case "error":
		return nil, errors.New("simulated")
	case "panic":
		panic("simulated")
	case "nil":
		return nil, nil
	case faults.KillBefore:
		o.Kill()
		return nil, faults.ErrDead
	}
	o.enter(req.Parent.Name(), nil)
	if f.Outcome == "keep" {
		return &handler.SyncResponse{KeepChildren: true, Resync: time.Second}, nil
	}
	o.allocate(uid)
	var first types.UID
	if held, ok := req.Children.OfType(k8s.ConfigMap).Get(req.Parent.Namespace(), req.Parent.Name()+"-0"); ok {
		first = held.UID()
	}
	next := &pass{failed: map[string]struct{}{}, stepped: map[string]struct{}{}}
	related := digest(slices.Collect(req.Related.All()))
	children := o.desired(req.Parent, first, related)
	next.showParts(req, children, o.onDelete(partType().Kind))
	for _, child := range children {
		meta, _ := child["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := child["kind"].(string)
		next.wanted = append(next.wanted, strings.ToLower(kind)+"s/"+name)
	}
	o.enter(req.Parent.Name(), next)
	if f.Outcome == faults.KillAfter {
		o.Kill()
	}
	status := statusOf(req.Parent, req.Children.Len(), related)
	if o.script.is(withReadiness) {
		status["conditions"] = []any{map[string]any{"type": "Synced", "status": "True", "reason": "Simulated"}}
	}
	return &handler.SyncResponse{Status: status, Children: o.gated(children)}, nil
}

// Finalize is handler.Handler's.
func (o *operator) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	uid := req.Parent.UID()
	defer o.begin(uid)()
	f := o.dice.next("finalize "+req.Parent.Name(), 2*o.dice.rates.handler, finalizeOutcomes()...)
	o.checkSnapshot(req)
	o.enter(req.Parent.Name(), nil)
	if !req.Parent.IsDeleting() {
		o.Violated("Finalize was called for %s, which isn't being deleted", req.Parent)
	}
	if err := o.Sleep(ctx, f.Delay/10); err != nil {
		return nil, err
	}
	switch f.Outcome {
	case "error":
		return nil, errors.New("simulated")
	case "panic":
		panic("simulated")
	case "nil":
		return nil, nil
	case "zero":
		return &handler.FinalizeResponse{}, nil
	case "retry":
		return &handler.FinalizeResponse{Status: map[string]any{"going": true}, Retry: time.Second}, nil
	case faults.KillBefore:
		o.Kill()
		return nil, faults.ErrDead
	}
	o.release(uid)
	o.finalizing(req)
	if f.Outcome == faults.KillAfter {
		o.Kill()
	}
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// enter notes what the handler has answered for a parent, by whose name the
// writes that follow are known.
func (o *operator) enter(parent string, next *pass) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.passes[parent] = next
}

// begin notes that a parent is being synced, which returns when it has been.
func (o *operator) begin(uid types.UID) func() {
	o.calls.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, running := o.mu.syncing[uid]; running {
		o.Violated("%s is synced twice at the same time", uid)
	}
	o.mu.syncing[uid] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.mu.syncing, uid)
	}
}

// checkSnapshot holds a snapshot against what this process was told.
func (o *operator) checkSnapshot(req *handler.SyncRequest) {
	o.checkRelated(req)
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := map[string]struct{}{}
	check := func(r *resource.Resource) {
		key := r.Type().Kind + " " + r.Key().String()
		shown[key] = struct{}{}
		told, ok := o.mu.told[key]
		if ok && number(r.ResourceVersion()) < told.version {
			o.Violated("%s is shown at resourceVersion %s, though an answer to a write told of %d", key, r.ResourceVersion(), told.version)
		}
		if _, gone := o.mu.deleted[r.UID()]; gone {
			o.Violated("%s, %s, is shown, though the answer to its deletion told that it is gone", key, r.UID())
		}
	}
	check(req.Parent)
	o.mu.shown[req.Parent.UID()] = struct{}{}
	if o.isAside(req.Parent.Labels()) {
		o.Violated("%s is shown, though it isn't selected", req.Parent)
	}
	if o.script.is(inNamespaces) && req.Parent.Namespace() == "ns3" {
		o.Violated("%s is shown, though it is in another namespace", req.Parent)
	}
	for child := range req.Children.All() {
		check(child)
		o.mu.shown[child.UID()] = struct{}{}
		if c := metaController(child); c != req.Parent.UID() {
			o.Violated("%s is shown as child of %s, but its controller is %q", child, req.Parent.UID(), c)
		}
	}
	for key, told := range o.mu.told {
		if _, ok := shown[key]; ok {
			continue
		}
		// It may have gone since, or have lost its owner, but not if it is
		// still as the answer said.
		live := o.byKey(key)
		if live != nil && live.UID() == told.uid && number(live.ResourceVersion()) == told.version && isChildOf(live, req.Parent.UID()) {
			o.Violated("%s isn't shown, though an answer to a write told of it at %d", key, told.version)
		}
	}
}
