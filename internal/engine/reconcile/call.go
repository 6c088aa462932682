package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/object"
)

// A HandlerError says that a call of the handler has failed: by an error that it returned, by a
// panic, or by an answer that is none.
type HandlerError struct {
	Method string // Sync, Finalize or Relate
	Err    error  // the engine's own: that of guard.Error for an error that the handler returned
	Stack  string // of a panic, of the handler or of its error's text, as the runtime prints it; else empty
}

// Error names the method.
func (e *HandlerError) Error() string { return "handler: " + e.Method + ": " + e.Err.Error() }

// Unwrap returns what stands for the error that the handler returned. errors.Is and errors.As find that one.
func (e *HandlerError) Unwrap() error { return e.Err }

var (
	errEndedGoroutine = errors.New("ended its goroutine (runtime.Goexit), as a failed assertion of a test does")
	errNoAnswer       = errors.New("returned neither a response nor an error")
)

// callSync calls the handler's Sync with the pass's snapshot. Of a response that is refused
// itself, the Events are left.
func (p *pass) callSync(ctx context.Context) (*handler.SyncResponse, error) {
	resp, err := call(ctx, p, observe.MethodSync, "Sync", p.handler.Sync)
	if err == nil && resp.Resync < 0 {
		return &handler.SyncResponse{Events: resp.Events}, &HandlerError{Method: "Sync", Err: fmt.Errorf("Resync: %s is negative", resp.Resync)}
	}
	if resp != nil && isShort(resp.Resync) {
		slower := *resp
		slower.Resync = p.slowDown("Resync", resp.Resync)
		resp = &slower
	}
	return resp, err
}

// callFinalize is callSync for the handler's Finalize.
func (p *pass) callFinalize(ctx context.Context) (*handler.FinalizeResponse, error) {
	resp, err := call(ctx, p, observe.MethodFinalize, "Finalize", p.handler.Finalize)
	if err == nil && resp.Retry < 0 {
		return &handler.FinalizeResponse{Events: resp.Events}, &HandlerError{Method: "Finalize", Err: fmt.Errorf("Retry: %s is negative", resp.Retry)}
	}
	if resp != nil && isShort(resp.Retry) {
		slower := *resp
		slower.Retry = p.slowDown("Retry", resp.Retry)
		resp = &slower
	}
	return resp, err
}

// shortest is the shortest delay after which the handler may ask for its next call. Otherwise one that says 30 and
// means seconds would be called without end.
const shortest = time.Millisecond

// isShort says whether a handler asks for its next call too soon.
func isShort(delay time.Duration) bool { return delay > 0 && delay < shortest }

// slowDown returns the delay that is taken in the place of one that is too short, and tells the author once.
func (p *pass) slowDown(field string, given time.Duration) time.Duration {
	p.mistakes.delay.Do(func() {
		p.Logger().Warn("the handler asks for its next call within less than a millisecond, and gets it after one; a time.Duration without a unit is in nanoseconds", "field", field, "delay", given)
	})
	return shortest
}

// call calls do, a method of the handler. method names it in metrics and spans,
// name in errors. The context of the call ends at the handler's timeout, and is
// marked in a dry run. An error comes with the response that the handler returned beside it, which may be nil;
// a success with a response. A panic is an error, with its stack in the log, and
// so is a nil response without an error, and a call that ends its goroutine.
func call[R any](ctx context.Context, p *pass, method, name string, do func(context.Context, *handler.SyncRequest) (*R, error)) (resp *R, err error) {
	ctx, cancel := p.withTimeout(ctx)
	defer cancel()
	if p.Config.DryRun {
		ctx = dryrun.Mark(ctx)
	}
	p.passes.calls(p.req.Parent.UID(), name)
	start := time.Now()
	ctx, span := p.tracing.Handler(ctx, method)
	defer func() {
		p.passes.calls(p.req.Parent.UID(), "")
		span.End(err)
		p.call, p.callTook = name, p.callTook+time.Since(start)
		p.metrics.Handled(ctx, method, time.Since(start), err)
	}()
	if p.client == nil { // a test's own call of the handler, whose assertions must end the test
		a := answer[R]{}
		a.ask(ctx, p, name, p.request(), do)
		return a.resp, a.err
	}
	return await(ctx, p, name, nil, do)
}

// withTimeout returns a context that ends at the handler's timeout, if there is one.
func (p *pass) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.Config.HandlerTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, p.Config.HandlerTimeout, &timeoutError{p.Config.HandlerTimeout})
}

// await asks the handler in a goroutine of its own, since the handler may end its
// goroutine, or never return. The goroutine ends with the call. await returns before
// only if the engine has given up waiting, after the end of the call's context, or once leave is closed.
func await[R any](ctx context.Context, p *pass, name string, leave <-chan struct{}, do func(context.Context, *handler.SyncRequest) (*R, error)) (*R, error) {
	answers := make(chan answer[R], 1) // with room for the answer that nobody awaits any more
	req := p.request()
	go func() {
		a := answer[R]{err: &HandlerError{Method: name, Err: errEndedGoroutine}}
		defer func() { answers <- a }()
		a.ask(ctx, p, name, req, do)
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-leave:
		return nil, &HandlerError{Method: name, Err: nameTimeout(ctx, ctx.Err())}
	case <-p.stuck.abandoned:
		err := p.stuck.giveUp(name, object.RefOf(p.req.Parent).String())
		p.Logger().ErrorContext(ctx, "gave up a call of the handler", "error", err)
		return nil, err
	}
}

// An answer is what a call of the handler has returned.
type answer[R any] struct {
	resp *R
	err  error
}

// request returns a copy of the request, which the handler may change.
func (p *pass) request() *handler.SyncRequest {
	req := *p.req
	req.LastErrors = slices.Clone(req.LastErrors)
	return &req
}

// ask calls do, a method of the handler, and keeps what it returns. A call that ends
// its goroutine leaves the answer as it was. ask may run beside the worker of p: it reads
// nothing of p that changes.
func (a *answer[R]) ask(ctx context.Context, p *pass, name string, req *handler.SyncRequest, do func(context.Context, *handler.SyncRequest) (*R, error)) {
	defer func() {
		if v := recover(); v != nil {
			panicked := guard.Recovered(v)
			*a = answer[R]{err: &HandlerError{Method: name, Err: panicked, Stack: panicked.Stack}}
			p.logPanic(ctx, "handler panicked", panicked)
		}
	}()
	resp, err := do(ctx, req)
	switch {
	case err != nil:
		err = guard.Error(err) // from here on, nothing calls the methods of the handler's error without a recover
		failed := &HandlerError{Method: name, Err: nameTimeout(ctx, err), Stack: guard.Stack(err)}
		*a = answer[R]{resp, failed}
		if failed.Stack != "" {
			p.logPanic(ctx, "handler returned an error that panics", &guard.PanicError{Text: err.Error(), Stack: failed.Stack})
		}
	case resp == nil:
		*a = answer[R]{err: &HandlerError{Method: name, Err: errNoAnswer}}
	default:
		*a = answer[R]{resp: resp}
	}
}

// A timeoutError is why the context of a call has ended at the handler's timeout.
type timeoutError struct{ timeout time.Duration }

// Error names the setting.
func (e *timeoutError) Error() string { return fmt.Sprintf("HandlerTimeout is %s", e.timeout) }

// nameTimeout returns the error of a call, from guard.Error, whose context is ctx. If the call failed since its time was over, the error says
// what gave it so little.
func nameTimeout(ctx context.Context, err error) error {
	if over, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", err, over)
	}
	return err
}

// failSync ends a pass in which Sync has failed with err. resp is the response
// that came with the error, nil if none did: its Events are recorded and its
// status is written. The children stay as they are, unless err asks for them to be
// deleted.
func (p *pass) failSync(ctx context.Context, resp *handler.SyncResponse, err error) (schedule.Outcome, error) {
	if resp == nil {
		return schedule.Outcome{Err: true, Permanent: isPermanent(err)}, err
	}
	p.emit(resp.Events)
	if deletesChildren(err) {
		out, deleteErr := p.act(ctx, &handler.SyncResponse{Status: resp.Status})
		out.Err, out.Permanent, out.RetryAfter = true, isPermanent(err), max(0, resp.Resync)
		return out, errors.Join(err, deleteErr)
	}
	return p.fail(ctx, resp.Status, resp.Resync, err)
}

// fail writes the status that came with an error of the handler. The parent is
// tried again after delay if that is positive, else by the backoff, and not at
// all if err is permanent and the status is written.
func (p *pass) fail(ctx context.Context, status any, delay time.Duration, err error) (schedule.Outcome, error) {
	out := schedule.Outcome{}
	want, statusErr := p.desireStatus(status)
	if statusErr == nil {
		out, statusErr = p.settleStatus(ctx, want, childrenState{caused: true, standing: p.standAfter(err)})
	}
	out.Again = false // a failed pass isn't repeated at once, whatever it wrote
	out.Err, out.Permanent, out.RetryAfter = true, isPermanent(err) && statusErr == nil, max(0, delay)
	return out, errors.Join(err, statusErr)
}

// isPermanent says whether a handler wrapped err with handler.Permanent.
func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// deletesChildren says whether an error of Sync asks for the parent's children
// to be deleted, as failable's DeleteChildrenOnError does.
func deletesChildren(err error) bool {
	var d interface{ DeleteChildren() bool }
	return errors.As(err, &d) && d.DeleteChildren()
}
