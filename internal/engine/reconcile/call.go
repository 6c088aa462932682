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

// callSync calls the handler's Sync.
func (p *pass) callSync(ctx context.Context) (*handler.SyncResponse, error) {
	resp, err := call(ctx, p, observe.MethodSync, "Sync", p.handler.Sync)
	if err == nil && resp.Resync < 0 {
		return nil, fmt.Errorf("handler: Sync: Resync: %s is negative", resp.Resync)
	}
	return resp, err
}

// callFinalize calls the handler's Finalize.
func (p *pass) callFinalize(ctx context.Context) (*handler.FinalizeResponse, error) {
	resp, err := call(ctx, p, observe.MethodFinalize, "Finalize", p.handler.Finalize)
	if err == nil && resp.Retry < 0 {
		return nil, fmt.Errorf("handler: Finalize: Retry: %s is negative", resp.Retry)
	}
	return resp, err
}

// call calls one method of the handler, with a context that ends at the
// handler's timeout. It returns a response with every error for which there is
// one. A panic is an error, with its stack in the log, and so is a nil response
// without an error.
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

// failSync writes the status and the Events that came with an error of Sync. The
// children stay as they are, unless the error says otherwise.
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

// fail writes the status that came with an error of the handler. The next try
// is after delay if that is positive, else by the backoff.
func (p *pass) fail(ctx context.Context, status any, delay time.Duration, err error) (schedule.Outcome, error) {
	out, statusErr := p.settleStatus(ctx, status, childrenState{prompted: true})
	out.Again = false // what was written prompts no pass: this one failed
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
