package storm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"

	"github.com/roperator/roperator/internal/testing/faults"
)

// A proxy is between the engine and the handler of a process. It makes faults, and it checks
// that the handler is what it has to be.
type proxy struct {
	process *process
	inner   handler.Handler

	mu struct {
		sync.Mutex
		last  map[types.NamespacedName]*answered // of each parent
		calls map[string]int                     // under way, by what they are about
	}
}

// An answered call is one of Sync that has succeeded.
type answered struct {
	request *handler.SyncRequest
	answer  *recording.Answer // nil: the call isn't checked
	desired []any             // the children as the handler has returned them
	resync  time.Duration     // after which the handler wants to be called again, since time may change its answer; 0: never
}

// Finalizes passes the engine's question on.
func (x *proxy) Finalizes() bool { return handler.Finalizes(x.inner) }

// Relates passes the engine's question on.
func (x *proxy) Relates() bool { return handler.Relates(x.inner) }

// Relate passes the engine's question on.
func (x *proxy) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return handler.Relate(x.inner, parent)
}

// Sync is handler.Handler's.
func (x *proxy) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	p := x.process
	f, ctx, err := x.begin(ctx, "Sync of ", req.Parent)
	if err != nil {
		return nil, err
	}
	defer x.enter("Sync of ", req.Parent)()
	resp, err := x.inner.Sync(ctx, req)
	if err == nil && resp != nil && !handler.IsPlan(ctx) {
		x.judge(ctx, req, resp)
	}
	if f.Outcome == faults.KillAfter && p.killNow() {
		return nil, faults.ErrDead
	}
	return resp, err
}

// Finalize is handler.Handler's.
func (x *proxy) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	p := x.process
	f, ctx, err := x.begin(ctx, "Finalize of ", req.Parent)
	if err != nil {
		return nil, err
	}
	defer x.enter("Finalize of ", req.Parent)()
	resp, err := x.inner.Finalize(ctx, req)
	if err == nil && resp != nil && resp.Finalized && !p.Killed() && p.world.checksCall() {
		x.finalizeAgain(ctx, req)
	}
	if f.Outcome == faults.KillAfter && p.killNow() {
		return nil, faults.ErrDead
	}
	return resp, err
}

// enter notes that a call is under way, until what it returns is called.
func (x *proxy) enter(what string, parent *resource.Resource) (leave func()) {
	name := what + named(parent.Type(), parent.Key())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.calls[name]++
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.mu.calls[name]--; x.mu.calls[name] == 0 {
			delete(x.mu.calls, name)
		}
	}
}

// underWay returns which calls are under way, and the longest Resync of an answer.
func (x *proxy) underWay() (calls []string, resync time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.mu.last {
		resync = max(resync, a.resync)
	}
	return slices.Sorted(maps.Keys(x.mu.calls)), resync
}

// begin makes the fault that comes before a call.
func (x *proxy) begin(ctx context.Context, what string, parent *resource.Resource) (faults.Fault, context.Context, error) {
	p, w := x.process, x.process.world
	name := what + named(parent.Type(), parent.Key())
	f := w.dice.next(name, calls)
	w.met(p, name, f)
	ctx = context.WithValue(ctx, processKey{}, p)
	if f.Outcome == faults.KillBefore {
		p.Kill()
		return f, ctx, faults.ErrDead
	}
	return f, ctx, p.Sleep(ctx, f.Delay/10)
}

// judge holds an answer against others for the same snapshot.
func (x *proxy) judge(ctx context.Context, req *handler.SyncRequest, resp *handler.SyncResponse) {
	w := x.process.world
	if x.process.Killed() {
		return
	}
	last := &answered{request: req, desired: resp.Children, resync: resp.Resync}
	x.mu.Lock()
	x.mu.last[req.Parent.Key()] = last
	x.mu.Unlock()
	if len(w.scenario.externals) > 0 || !w.checksCall() {
		return // what an outside system answers the second time may be something else
	}
	answer, err := x.answerOf(recording.KindSync, resp)
	if err != nil {
		return // the engine refuses it
	}
	x.mu.Lock()
	last.answer = answer
	x.mu.Unlock()
	x.compare(ctx, x.inner, req, answer, "called twice for the same snapshot, the handler answers differently")
	x.compare(ctx, w.newHandler(), req, answer, "another process answers differently for the same snapshot")
}

// compare calls a handler for a snapshot, and says in which field it answers something else.
func (x *proxy) compare(ctx context.Context, h handler.Handler, req *handler.SyncRequest, ought *recording.Answer, text string) {
	w := x.process.world
	where := "Sync of " + named(req.Parent.Type(), req.Parent.Key())
	resp, err := syncAgain(ctx, h, req)
	if err != nil || resp == nil {
		if ctx.Err() == nil {
			w.violated("function", where, "%s: %s: the error %v, after none", where, text, err)
		}
		return
	}
	is, err := x.answerOf(recording.KindSync, resp)
	if err != nil {
		w.violated("function", where, "%s: %s: %v", where, text, err)
		return
	}
	if field := w.firstDifference(is, ought); field != "" {
		w.violated("function", where, "%s: %s: %s", where, text, field)
	}
}

// syncAgain calls a handler to check it. A panic is an error.
func syncAgain(ctx context.Context, h handler.Handler, req *handler.SyncRequest) (resp *handler.SyncResponse, err error) {
	defer recoverInto(&err)
	return h.Sync(context.WithValue(ctx, checkKey{}, true), req)
}

func recoverInto(err *error) {
	if v := recover(); v != nil {
		*err = panicError{v}
	}
}

// A panicError is what somebody has panicked with.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func (x *proxy) answerOf(kind recording.Kind, resp any) (*recording.Answer, error) {
	return recording.AnswerOf(recording.Call{Kind: kind, Response: resp}, x.process.world.hide)
}

// finalizeAgain holds that Finalize can be repeated.
func (x *proxy) finalizeAgain(ctx context.Context, req *handler.SyncRequest) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, checkKey{}, true), time.Minute)
	defer cancel()
	resp, err := func() (resp *handler.FinalizeResponse, err error) {
		defer recoverInto(&err)
		return x.inner.Finalize(ctx, req)
	}()
	where := "Finalize of " + named(req.Parent.Type(), req.Parent.Key())
	switch {
	case x.process.Killed():
	case err != nil:
		x.process.world.violated("finalize", where, "%s can't be repeated: called again for the snapshot for which it has returned Finalized, it returns the error %v", where, err)
	case resp == nil || !resp.Finalized:
		x.process.world.violated("finalize", where, "%s can't be repeated: called again for the snapshot for which it has returned Finalized, it doesn't", where)
	}
}

// recheck holds what the handler answers at the end against what it has answered before.
func (x *proxy) recheck(ctx context.Context) {
	w := x.process.world
	x.mu.Lock()
	last := maps.Clone(x.mu.last)
	x.mu.Unlock()
	ctx = context.WithValue(ctx, processKey{}, x.process)
	for _, parent := range w.server.List(w.operator.Parent) {
		a := last[parent.Key()]
		if a == nil || a.request.Parent.ResourceVersion() != parent.ResourceVersion() || parent.IsDeleting() {
			continue
		}
		if len(w.scenario.externals) == 0 && a.resync == 0 {
			if a.answer == nil {
				continue
			}
			x.compare(ctx, x.inner, a.request, a.answer, "the same snapshot gets another answer minutes later")
			x.compare(ctx, w.newHandler(), a.request, a.answer, "another process answers differently for the same snapshot")
			continue
		}
		resp, err := syncAgain(ctx, x.inner, a.request)
		if err != nil || resp == nil {
			continue
		}
		if answer, err := x.answerOf(recording.KindSync, resp); err == nil {
			x.compare(ctx, w.newHandler(), a.request, answer, "another process answers differently for the same snapshot")
		}
	}
}

// desired returns what the last answer about a parent wants of a child, nil if it says nothing
// or more than what the child's fields are to be.
func (x *proxy) desired(parent types.NamespacedName, child *resource.Resource) map[string]any {
	x.mu.Lock()
	a := x.mu.last[parent]
	x.mu.Unlock()
	if a == nil {
		return nil
	}
	return wanted(a.desired, child)
}
