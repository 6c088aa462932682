package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// settleFinalizers sees to it that the parent has our finalizer if there is
// something to finalize, and none of ours otherwise. On success p.parent is
// the newest state of the parent.
func (p *pass) settleFinalizers(ctx context.Context) error {
	if p.cfg.DryRun {
		p.rehearseFinalizers(p.wantedFinalizers)
		return nil
	}
	parent, err := p.setFinalizers(ctx, p.parent, p.wantedFinalizers)
	if err != nil {
		return fmt.Errorf("%s: finalizer: %w", refOf(p.parent), err)
	}
	if parent != p.parent {
		p.wrote("patch finalizers")
		p.parent = parent
		p.req = &handler.SyncRequest{Parent: parent, Children: p.req.Children}
	}
	return nil
}

// wantedFinalizers returns what becomes of the finalizers of a parent that
// isn't being deleted.
func (p *pass) wantedFinalizers(held []string) []string {
	held = p.dropFormer(held)
	switch has := slices.Contains(held, p.finalizer); {
	case p.finalizes && !has:
		return append(held, p.finalizer)
	case !p.finalizes && has:
		return slices.DeleteFunc(held, func(f string) bool { return f == p.finalizer })
	}
	return held
}

func (p *pass) dropFormer(held []string) []string {
	return slices.DeleteFunc(slices.Clone(held), func(f string) bool {
		return f != p.finalizer && slices.Contains(p.cfg.FormerFinalizers, f)
	})
}

// setFinalizers changes the parent's finalizers with a JSON Patch that applies
// only to the list it was computed from, so that another controller's
// finalizer is never touched. It returns the parent as it then is: parent
// itself if nothing had to be changed. A parent that has left or entered the
// ParentSelector meanwhile is left alone and not found: what is to become of it
// is decided when the watch tells of that.
func (r *engine) setFinalizers(ctx context.Context, parent *resource.Resource, change func([]string) []string) (*resource.Resource, error) {
	selected := r.selects(parent)
	for {
		held := parent.Finalizers()
		want := change(slices.Clone(held))
		if slices.Equal(held, want) {
			return parent, nil
		}
		patch, err := finalizerPatch(parent, want, r.cfg.ParentSelector != "")
		if err != nil {
			return nil, err
		}
		inner, span := r.tracing.write(ctx, "patch finalizers", refOf(parent))
		answer, err := r.client.patch(inner, r.types.parent, parent.Key(), types.JSONPatchType, patch)
		span.end(err)
		r.metrics.finalizers(parent.Type(), err)
		if err == nil {
			switch {
			case isGone(answer):
				r.store.wroteDelete(parent, nil)
			case selected: // of any other no watch would tell what becomes of it
				r.store.wrote(answer)
			}
			return answer, nil
		}
		if !apierrors.IsInvalid(err) {
			return nil, err
		}
		// A failed test is a 422 without details: has the parent changed?
		live, getErr := r.client.get(ctx, r.types.parent, parent.Key())
		switch {
		case getErr != nil:
			return nil, getErr
		case live.UID() != parent.UID(), r.selects(live) != selected:
			return nil, apierrors.NewNotFound(r.types.parent.gvr.GroupResource(), parent.Name())
		case live.ResourceVersion() == parent.ResourceVersion():
			return nil, err
		}
		if selected {
			r.store.wrote(live)
		}
		parent = live
		if live.IsDeleting() && len(want) > len(held) {
			return live, nil // too late to add one
		}
	}
}

// finalizerPatch is a JSON Patch of the parent's finalizers from what they are
// to want, if need be only while its labels are the same. A test of an absent
// list against null succeeds (tried on kube-apiserver 1.36).
func finalizerPatch(parent *resource.Resource, want []string, sameLabels bool) ([]byte, error) {
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var before, labels any
	if held := parent.Finalizers(); len(held) > 0 {
		before = held
	}
	if held := parent.Labels(); len(held) > 0 {
		labels = held
	}
	ops := []op{{"test", "/metadata/uid", parent.UID()}, {"test", "/metadata/finalizers", before}}
	if sameLabels {
		ops = append(ops, op{"test", "/metadata/labels", labels})
	}
	return json.Marshal(append(ops, op{"add", "/metadata/finalizers", want}))
}

// finalize calls the handler for a parent that is being deleted, and lets go
// of it when the handler is done.
func (p *pass) finalize(ctx context.Context) (outcome, error) {
	nothing := !slices.Contains(p.parent.Finalizers(), p.finalizer) || !p.finalizes
	switch {
	case p.cfg.DryRun && nothing:
		p.rehearseFinalizers(p.withoutOurs)
		return outcome{}, nil
	case p.cfg.DryRun:
		p.would = append(p.would, p.changeOfParent("finalize", nil))
		return outcome{}, nil
	case nothing:
		return p.letGo(ctx) // what an earlier build left goes
	}
	resp, err := p.callFinalize(ctx)
	if err != nil {
		return outcome{Err: true, Permanent: isPermanent(err)}, err
	}
	p.emit(resp.Events)
	if resp.Finalized {
		out, err := p.letGo(ctx)
		if err == nil {
			p.event(p.parent, normal, reasonFinalized, "finalized, the deletion goes on")
		}
		return out, err
	}
	p.memory.statusDeferred = true // there is no pass to leave it to
	out, err := p.settleStatus(ctx, resp.Status, false, false, true)
	if err != nil {
		return outcome{Err: true}, err
	}
	if out.Again = false; resp.Retry > 0 {
		out.RetryAfter = resp.Retry
		return out, nil
	}
	out.Err = true // not a failure to tell of, but tried again like one
	return out, nil
}

// letGo takes our finalizers off the parent.
func (p *pass) letGo(ctx context.Context) (outcome, error) {
	parent, err := p.setFinalizers(ctx, p.parent, p.withoutOurs)
	switch {
	case apierrors.IsNotFound(err):
		return outcome{}, nil
	case err != nil:
		return outcome{Err: true}, fmt.Errorf("%s: finalizer: %w", refOf(p.parent), err)
	case parent != p.parent:
		p.wrote("remove finalizer")
	}
	if isGone(parent) {
		p.forget(parent.UID())
		p.store.forgetDeparted(parent.UID())
		return outcome{Forget: true}, nil
	}
	return outcome{}, nil
}

// isGone says whether the answer to a patch of finalizers is that of an object
// which went with the last of them. Such an answer has the resourceVersion from
// before (tried on kube-apiserver 1.36), so it isn't the newest state of
// anything.
func isGone(answer *resource.Resource) bool {
	return answer.IsDeleting() && len(answer.Finalizers()) == 0
}

func (r *engine) withoutOurs(held []string) []string {
	return slices.DeleteFunc(held, func(f string) bool {
		return f == r.finalizer || slices.Contains(r.cfg.FormerFinalizers, f)
	})
}

// callFinalize calls the handler. A panic is an error, with its stack in the
// log.
func (p *pass) callFinalize(ctx context.Context) (resp *handler.FinalizeResponse, err error) {
	ctx, cancel := p.handlerContext(ctx)
	defer cancel()
	start := time.Now()
	ctx, span := p.tracing.handler(ctx, methodFinalize)
	defer func() {
		span.end(err)
		p.metrics.handled(ctx, methodFinalize, time.Since(start), err)
	}()
	defer func() {
		if v := recover(); v != nil {
			p.logger().ErrorContext(ctx, "handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			resp, err = nil, fmt.Errorf("handler: Finalize: panic: %v", v)
		}
	}()
	resp, err = p.handler.Finalize(ctx, p.req)
	switch {
	case err != nil:
		return nil, fmt.Errorf("handler: Finalize: %w", err)
	case resp == nil:
		return nil, errors.New("handler: Finalize: returned neither a response nor an error")
	case resp.Retry < 0:
		return nil, fmt.Errorf("handler: Finalize: Retry: %s is negative", resp.Retry)
	}
	return resp, nil
}

// release lets go of a parent that is no longer there to see: deleted, or out
// of the ParentSelector. The latter keeps its children but loses our
// finalizer, so that it doesn't wait for an operator that no longer cares.
func (r *engine) release(ctx context.Context, uid types.UID) outcome {
	last, ok := r.store.departedParent(uid)
	if !ok || r.cfg.DryRun {
		r.store.forgetDeparted(uid)
		return outcome{Forget: true}
	}
	if err := r.releaseLive(ctx, last); err != nil {
		r.log.ErrorContext(ctx, "release failed", "namespace", last.Namespace(), "name", last.Name(), "error", err)
		return outcome{Err: true}
	}
	r.store.forgetDeparted(uid)
	return outcome{Forget: true}
}

func (r *engine) releaseLive(ctx context.Context, last *resource.Resource) error {
	if slices.Equal(r.withoutOurs(slices.Clone(last.Finalizers())), last.Finalizers()) {
		return nil
	}
	live, err := r.client.get(ctx, r.types.parent, last.Key())
	if apierrors.IsNotFound(err) || err == nil && live.UID() != last.UID() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: read: %w", refOf(last), err)
	}
	if r.selects(live) {
		return nil // it is back; its watch event is on the way
	}
	_, err = r.setFinalizers(ctx, live, r.withoutOurs)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: finalizer: %w", refOf(last), err)
	}
	return nil
}
