package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/encode"
)

// settleStatus writes the parent's status if it differs. A pass that changed
// children leaves it to the pass that follows at once on the new state, but
// not twice in a row.
func (p *pass) settleStatus(ctx context.Context, status any, changed, failed, prompted bool) (outcome, error) {
	if isNil(status) {
		p.memory.statusDeferred = false
		return outcome{}, nil
	}
	if !p.types.parent.status {
		return outcome{}, fmt.Errorf("%s: status: the CustomResourceDefinition has no status subresource in version %s; add `subresources: {status: {}}` to it, or return a nil Status",
			refOf(p.parent), p.parent.Type().GroupVersionKind().Version)
	}
	if p.cfg.DryRun && !failed && p.wouldChangeChildren() {
		return outcome{}, nil // another one will follow from what becomes of them
	}
	if changed && !failed && !p.memory.statusDeferred {
		p.memory.statusDeferred = true
		return outcome{}, nil
	}
	p.memory.statusDeferred = false
	want, err := p.wantedStatus(status, failed)
	if err != nil {
		return outcome{}, fmt.Errorf("%s: status: %w", refOf(p.parent), err)
	}
	live, _ := p.parent.Field("status")
	live = nullFree(live)
	if reflect.DeepEqual(want, live) {
		return outcome{}, nil
	}
	seen := statusMemory{desired: jsonSum(want), live: jsonSum(live)}
	if seen == p.memory.status {
		return outcome{}, nil // that is what the server makes of it
	}
	if p.cfg.DryRun {
		return outcome{}, p.rehearseStatus(ctx, want, live)
	}
	return p.writeStatus(ctx, want, live, prompted)
}

func (p *pass) writeStatus(ctx context.Context, want, live any, prompted bool) (outcome, error) {
	body := p.parent.Unstructured().Object
	body["status"] = want
	inner, span := p.tracing.write(ctx, "update status", refOf(p.parent))
	answer, err := p.client.update(inner, p.types.parent, p.parent.Key(), "status", body, false)
	span.end(err)
	p.metrics.wrote(p.parent.Type(), "update status", result{
		wrote: err == nil, redundant: err == nil && answer.ResourceVersion() == p.parent.ResourceVersion(), await: apierrors.IsConflict(err) || apierrors.IsNotFound(err), err: err,
	})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		out := outcome{Resync: awaited}
		held, ok := p.store.parent(p.parent.UID())
		out.Again = ok && held.ResourceVersion() != p.parent.ResourceVersion()
		return out, nil // the newer parent is here or on its way
	case err != nil:
		err = fmt.Errorf("%s: status: %w", refOf(p.parent), err)
		if isRefusal(err) {
			err = &refusedError{err}
		}
		return outcome{}, err
	}
	p.store.wrote(answer)
	made, _ := answer.Field("status")
	p.memory.status = statusMemory{desired: jsonSum(want), live: jsonSum(nullFree(made))}
	if answer.ResourceVersion() == p.parent.ResourceVersion() {
		return outcome{}, nil // the server saw no difference
	}
	p.wrote("update status")
	var out outcome
	if !prompted {
		out.Throttled = p.suspectStatus(want, live)
	}
	p.parent = answer
	out.Again = true
	return out, nil
}

// suspectStatus counts a status that changed though nothing else did.
func (p *pass) suspectStatus(want, live any) bool {
	was, _ := live.(map[string]any)
	wanted, _ := want.(map[string]any)
	var c comparison
	var writes []loopWrite
	for _, d := range c.compare(map[string]any{"spec": was}, map[string]any{"spec": wanted}, nil) {
		writes = append(writes, loopWrite{
			Path: "status" + d.Path[len("spec"):], From: show(p.types.parent, d.Live), To: show(p.types.parent, d.Desired),
		})
	}
	if len(writes) == 0 {
		writes = []loopWrite{{Path: "status", From: show(p.types.parent, live), To: show(p.types.parent, want)}}
	}
	return p.countLoop(loopKey{Parent: p.parent.UID(), Type: p.parent.Type(), Object: p.parent.Key()}, writes)
}

// wantedStatus is the handler's status with observedGeneration: that of the
// parent it was computed from or, if writing its children failed, the one that
// stands.
func (p *pass) wantedStatus(status any, failed bool) (any, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	wrapped, err := encode.Map(json.RawMessage(append(append([]byte(`{"status":`), raw...), '}')))
	if err != nil {
		return nil, err
	}
	want := nullFree(wrapped["status"])
	fields, ok := want.(map[string]any)
	if !ok {
		return want, nil
	}
	delete(fields, "observedGeneration")
	if !failed {
		if g := p.parent.Generation(); g > 0 {
			fields["observedGeneration"] = g
		}
	} else if old, ok := p.parent.Field("status", "observedGeneration"); ok {
		fields["observedGeneration"] = old
	}
	return fields, nil
}

// isNil says that a handler said nothing about the status: a nil interface, or
// a nil pointer or map in it.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return rv.IsNil()
	}
	return false
}

// warnNoStatus tells at start of a parent type without status subresource.
func (r *engine) warnNoStatus() {
	if !r.types.parent.status {
		r.log.Warn("parent type has no status subresource: a handler that returns a status will fail", "type", r.types.parent.Type.String())
	}
}
