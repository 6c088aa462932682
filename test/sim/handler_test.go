package sim

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
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

// desired returns the desired children of a parent, given its first ConfigMap's UID, and a digest of what
// it refers to.
func (w *world) desired(parent *resource.Resource, first types.UID, related string) []map[string]any {
	value, count := specOf(parent)
	var out []map[string]any
	if !w.script.is(dense) {
		for _, name := range w.script.partNames(parent.Name(), count) {
			out = append(out, part(name, value, count, related))
		}
	}
	for i := range count {
		out = append(out, configMap(parent.Name(), i, value))
	}
	if first != "" && count > 0 {
		out = append(out, secret(parent.Name(), value, first))
	}
	for _, child := range named(parent) {
		out = append(out, namedChild(child, parent.Name(), value, related))
	}
	return out
}

// named returns the children that a parent names, as Kind/name.
func named(parent *resource.Resource) (out []string) {
	list, _ := parent.Field("spec", "children")
	items, _ := list.([]any)
	for _, item := range items {
		text, _ := item.(string)
		out = append(out, text)
	}
	return out
}

// namedChild is a child that other parents may name, too. Only Parts tell of related objects, to which
// no parent refers: two that tell of each other, or one that tells of itself, may never come to rest.
func namedChild(child, parent, value, related string) map[string]any {
	t, key := object(child)
	contents := map[string]any{"value": value, "of": parent}
	if t == partType() && related != "" {
		contents["related"] = related
	}
	return map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": key.Name}, contentsField(t): contents}
}

// contentsField returns the field in which a type has its contents.
func contentsField(t resource.Type) string {
	if t == k8s.ConfigMap || t == k8s.Secret {
		return "data"
	}
	return "spec"
}

func specOf(parent *resource.Resource) (value string, count int) {
	v, _ := parent.Field("spec", "value")
	value, _ = v.(string)
	n, _ := parent.Field("spec", "count")
	n64, _ := n.(int64)
	return value, int(n64)
}

// statusOf returns the status of a parent that tells what its handler was shown.
func statusOf(parent *resource.Resource, children []*resource.Resource, related string) map[string]any {
	value, _ := specOf(parent)
	texts := []string{}
	for _, child := range children {
		texts = append(texts, child.Type().Kind+"/"+child.Name()+"="+valueOf(child))
	}
	slices.Sort(texts)
	status := map[string]any{"value": value, "children": strings.Join(texts, " ")}
	if related != "" {
		status["related"] = related
	}
	return status
}

// behavior returns how the handler behaves for a parent, as the verb behave has set it: in Sync, in
// Finalize, and which status it returns. "" is as usual.
func behavior(parent *resource.Resource, in string) string {
	v, _ := parent.Field("spec", "behavior", in)
	text, _ := v.(string)
	return text
}

// fails says whether the handler fails for a parent as it is now.
func fails(parent *resource.Resource) bool {
	how := behavior(parent, "sync")
	if parent.IsDeleting() && how != "relate" {
		how = behavior(parent, "final")
	}
	_, allowed := refsOf(parent)
	return slices.Contains([]string{"error", "panic", "exit", "relate"}, how) || !allowed
}

var errSimulated = errors.New("simulated")

// end ends a call of the handler early, as an outcome says. done is false if it doesn't.
func (o *operator) end(outcome string) (done bool, err error) {
	switch outcome {
	case "error":
		return true, errSimulated
	case "panic":
		panic("simulated")
	case "exit":
		runtime.Goexit()
	case "nil":
		return true, nil
	case faults.KillBefore:
		o.Kill()
		return true, faults.ErrDead
	}
	return false, nil
}

// Sync is handler.Handler's.
func (o *operator) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	uid := req.Parent.UID()
	call, end := o.begin(uid)
	defer end()
	f := o.dice.next("sync "+req.Parent.Name(), o.dice.rates.handler, syncOutcomes()...)
	o.checkSnapshot(req)
	if err := o.Sleep(ctx, f.Delay/10); err != nil {
		return nil, err
	}
	o.enter(ctx, req.Parent.Name(), &pass{none: true, failed: map[string]struct{}{}})
	outcome := f.Outcome
	if outcome == "" || outcome == faults.Late {
		outcome = behavior(req.Parent, "sync")
	}
	if outcome == "error" && o.script.is(counted) {
		return o.respond(ctx, req, call), errSimulated
	}
	if done, err := o.end(outcome); done {
		return nil, err
	}
	o.enter(ctx, req.Parent.Name(), nil)
	if outcome == "keep" {
		return &handler.SyncResponse{KeepChildren: true, Resync: time.Second}, nil
	}
	if !o.script.is(bareHandler) {
		o.allocate(uid)
	}
	resp := o.respond(ctx, req, call)
	switch outcome {
	case "permanent":
		return resp, handler.Permanent(errSimulated)
	case "delayed":
		resp.Resync = 10 * time.Second
		return resp, errSimulated
	case "resync":
		resp.Resync = 7 * time.Second
	case faults.KillAfter:
		o.Kill()
	}
	return resp, nil
}

// respond returns the usual response to the call of Sync for a parent that has this number.
func (o *operator) respond(ctx context.Context, req *handler.SyncRequest, call int) *handler.SyncResponse {
	var first types.UID
	if held, ok := req.Children.OfType(k8s.ConfigMap).Get(req.Parent.Namespace(), req.Parent.Name()+"-0"); ok {
		first = held.UID()
	}
	related := digest(slices.Collect(req.Related.All()))
	children := o.desired(req.Parent, first, related)
	if behavior(req.Parent, "sync") == "random" {
		for _, child := range children {
			nested(child, "data")["value"] = strconv.Itoa(call)
		}
	}
	next := &pass{failed: map[string]struct{}{}, stepped: map[string]struct{}{}}
	next.showParts(req, children, o.onDelete(partType().Kind))
	for _, child := range children {
		meta, _ := child["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := child["kind"].(string)
		next.wanted = append(next.wanted, strings.ToLower(kind)+"s/"+name)
	}
	if !fails(req.Parent) {
		o.enter(ctx, req.Parent.Name(), next)
	}
	return &handler.SyncResponse{Status: o.status(req, related, call), Children: o.gated(children)}
}

// status returns the status of a parent.
func (o *operator) status(req *handler.SyncRequest, related string, call int) any {
	switch behavior(req.Parent, "status") {
	case "none":
		return nil
	case "constant":
		return map[string]any{"a": "b"}
	case "attempts":
		return map[string]any{"attempts": call}
	case "seconds":
		return map[string]any{"at": time.Now().UTC().Format(time.RFC3339)}
	}
	status := statusOf(req.Parent, slices.Collect(req.Children.All()), related)
	if o.script.is(withReadiness) {
		status["conditions"] = []any{map[string]any{"type": "Synced", "status": "True", "reason": "Simulated"}}
	}
	return status
}

// Finalize is handler.Handler's.
func (o *operator) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	uid := req.Parent.UID()
	call, end := o.begin(uid)
	defer end()
	f := o.dice.next("finalize "+req.Parent.Name(), 2*o.dice.rates.handler, finalizeOutcomes()...)
	o.checkSnapshot(req)
	o.enter(ctx, req.Parent.Name(), nil)
	if !req.Parent.IsDeleting() {
		o.Violated("Finalize was called for %s, which isn't being deleted", req.Parent)
	}
	if err := o.Sleep(ctx, f.Delay/10); err != nil {
		return nil, err
	}
	outcome := f.Outcome
	if outcome == "" || outcome == faults.Late {
		outcome = behavior(req.Parent, "final")
	}
	resp := &handler.FinalizeResponse{Status: map[string]any{"going": true}}
	if o.script.is(counted) {
		resp.Status = o.status(req, "", call)
	}
	if outcome == "error" && o.script.is(counted) {
		return resp, errSimulated
	}
	if done, err := o.end(outcome); done {
		return nil, err
	}
	switch outcome {
	case "zero":
		return &handler.FinalizeResponse{}, nil
	case "zero-status":
		return resp, nil
	case "retry":
		resp.Retry = time.Second
		return resp, nil
	case "retry-late":
		resp.Retry = 10 * time.Second
		return resp, nil
	case "slow":
		if call < 3 {
			return &handler.FinalizeResponse{Retry: 200 * time.Millisecond}, nil
		}
	}
	o.release(uid)
	o.finalizing(req)
	if outcome == faults.KillAfter {
		o.Kill()
	}
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// enter notes what the handler has answered for a parent, by whose name the
// writes that follow are known.
func (o *operator) enter(ctx context.Context, parent string, next *pass) {
	if handler.IsPlan(ctx) {
		return // nothing of it is carried out
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.passes[parent] = next
}

// begin notes that the handler is called for a parent: for the how manieth time it returns, and what is
// to be called at the end.
func (o *operator) begin(uid types.UID) (call int, end func()) {
	call = o.called(uid)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, running := o.mu.syncing[uid]; running {
		o.Violated("%s is synced twice at the same time", uid)
	}
	o.mu.syncing[uid] = struct{}{}
	return call, func() {
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
		if ok && number(r.ResourceVersion()) < told.version && o.restores.Load() == 0 {
			o.Violated("%s is shown at resourceVersion %s, though an answer to a write told of %d", key, r.ResourceVersion(), told.version)
		}
		if _, gone := o.mu.deleted[r.UID()]; gone && o.restores.Load() == 0 {
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
		if _, ok := shown[key]; ok || o.restores.Load() > 0 {
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
