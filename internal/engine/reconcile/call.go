package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/schedule"
)

// callSync calls the handler's Sync with the pass's snapshot.
func (p *pass) callSync(ctx context.Context) (*handler.SyncResponse, error) {
	resp, err := call(ctx, p, observe.MethodSync, "Sync", p.handler.Sync)
	if err == nil && resp.Resync < 0 {
		return nil, fmt.Errorf("handler: Sync: Resync: %s is negative", resp.Resync)
	}
	return resp, err
}

// callFinalize calls the handler's Finalize with the pass's snapshot.
func (p *pass) callFinalize(ctx context.Context) (*handler.FinalizeResponse, error) {
	resp, err := call(ctx, p, observe.MethodFinalize, "Finalize", p.handler.Finalize)
	if err == nil && resp.Retry < 0 {
		return nil, fmt.Errorf("handler: Finalize: Retry: %s is negative", resp.Retry)
	}
	return resp, err
}

// call calls do, a method of the handler. method names it in metrics and spans,
// name in errors. The context of the call ends at the handler's timeout. An error
// comes with the response that the handler returned beside it, which may be nil;
// a success with a response. A panic is an error, with its stack in the log, and
// so is a nil response without an error.
func call[R any](ctx context.Context, p *pass, method, name string, do func(context.Context, *handler.SyncRequest) (*R, error)) (resp *R, err error) {
	cancel := func() {}
	if p.Config.HandlerTimeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.Config.HandlerTimeout)
	}
	defer cancel()
	start := time.Now()
	ctx, span := p.tracing.Handler(ctx, method)
	defer func() {
		span.End(err)
		p.metrics.Handled(ctx, method, time.Since(start), err)
	}()
	defer func() {
		if v := recover(); v != nil {
			p.Logger().ErrorContext(ctx, "handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			resp, err = nil, fmt.Errorf("handler: %s: panic: %v", name, v)
		}
	}()
	resp, err = do(ctx, p.req)
	switch {
	case err != nil:
		return resp, fmt.Errorf("handler: %s: %w", name, err)
	case resp == nil:
		return nil, fmt.Errorf("handler: %s: returned neither a response nor an error", name)
	}
	return resp, nil
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
	out, statusErr := p.settleStatus(ctx, status, childrenState{prompted: true})
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
