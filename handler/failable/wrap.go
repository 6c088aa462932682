package failable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roperator/roperator/handler"
)

// unprompted is when a Finalize that isn't to be retried is retried: not while
// anyone lives to see it. The engine has no word for never, since 0 asks for
// its own backoff.
const unprompted = 100 * 365 * 24 * time.Hour

// Options are what [Wrap] may be told. The zero value is the default.
type Options struct {
	// Backoff is when parents are tried again after an error.
	Backoff BackoffConfig
	// RegularResync is when to sync again after a success although nothing
	// changed, as for children outside the cluster; 0 or less means never.
	RegularResync time.Duration
	// DeleteChildrenOnError deletes every child of a parent whose Validate or
	// SyncChildren failed, as roperator for Rust did. The default leaves the
	// children as they are.
	DeleteChildrenOnError bool
}

// Wrap returns a handler.Handler that takes the steps of h; the package's
// documentation says in which order, and what an error leads to. The
// handler.Handler has something to finalize unless h has a method
// Finalizes() bool that says otherwise.
//
// An error of a step is not an error of the returned Handler: it returns one
// only for a status that can't be encoded as JSON, and that error names the
// parent. It is left to the backoff of the engine.
//
// A Finalize that failed is not retried any more when its error is permanent
// or the backoff gives up, but the parent isn't released either: it stays
// until it or a child changes or the operator restarts, and then Finalize is
// called again.
//
// Per failing parent the Handler keeps a few words of memory, as documented at
// [ErrorBackoff].
func Wrap[V any](h Handler[V], opts Options) handler.Handler {
	return &wrapped[V]{inner: h, opts: opts, backoff: ErrorBackoff{Config: opts.Backoff}}
}

type wrapped[V any] struct {
	inner   Handler[V]
	opts    Options
	backoff ErrorBackoff
}

// Finalizes tells handler.Finalizes, and so the engine.
func (w *wrapped[V]) Finalizes() bool {
	if h, ok := w.inner.(interface{ Finalizes() bool }); ok {
		return h.Finalizes()
	}
	return true
}

// Sync takes the steps of a parent that isn't being deleted.
func (w *wrapped[V]) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	children, result := w.syncChildren(ctx, req)
	status, err := w.status(ctx, req, result)
	if err != nil {
		return nil, err
	}
	if result.OK() {
		w.backoff.Reset(req)
		return &handler.SyncResponse{Status: status, Children: children, Resync: max(0, w.opts.RegularResync)}, nil
	}
	resync, _ := w.retry(req, result.err)
	return &handler.SyncResponse{
		Status:       status,
		KeepChildren: !w.opts.DeleteChildrenOnError,
		Resync:       resync,
		Events:       failureEvents(result),
	}, nil
}

func (w *wrapped[V]) syncChildren(ctx context.Context, req *handler.SyncRequest) ([]any, Result[V]) {
	validated, err := w.inner.Validate(ctx, req)
	if err != nil {
		return nil, Result[V]{outcome: ValidationFailed, err: err}
	}
	children, err := w.inner.SyncChildren(ctx, validated, req)
	if err != nil {
		return nil, Result[V]{outcome: SyncFailed, validated: validated, err: err}
	}
	return children, Result[V]{outcome: SyncSucceeded, validated: validated}
}

// Finalize takes the steps of a parent that is being deleted.
func (w *wrapped[V]) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	err := w.inner.Finalize(ctx, req)
	if err == nil {
		w.backoff.Reset(req)
		// Nobody writes this status, so it can't hold up the deletion either.
		status := w.inner.DetermineStatus(ctx, req, Result[V]{outcome: FinalizeSucceeded})
		return &handler.FinalizeResponse{Finalized: true, Status: status}, nil
	}
	result := Result[V]{outcome: FinalizeFailed, err: err}
	status, err := w.status(ctx, req, result)
	if err != nil {
		return nil, err
	}
	retry, ok := w.retry(req, result.err)
	if !ok {
		retry = unprompted
	}
	return &handler.FinalizeResponse{Status: status, Retry: retry, Events: failureEvents(result)}, nil
}

// status returns the parent's status if it can be encoded.
func (w *wrapped[V]) status(ctx context.Context, req *handler.SyncRequest, result Result[V]) (any, error) {
	status := w.inner.DetermineStatus(ctx, req, result)
	_, err := json.Marshal(status)
	switch {
	case err == nil:
		return status, nil
	case result.OK():
		return nil, fmt.Errorf("%s: status: %w", req.Parent, err)
	}
	return nil, fmt.Errorf("%s: status: %w (it was to tell of: %w)", req.Parent, err, result.err)
}

// retry returns when to try again, false if not before something changes.
func (w *wrapped[V]) retry(req *handler.SyncRequest, err error) (time.Duration, bool) {
	if isPermanent(err) {
		w.backoff.Reset(req)
		return 0, false
	}
	return w.backoff.Next(req)
}

// isPermanent says that err was wrapped with handler.Permanent.
func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

func failureEvents[V any](result Result[V]) []handler.Event {
	return []handler.Event{{
		Type:    handler.EventWarning,
		Reason:  string(result.outcome),
		Message: result.err.Error(),
	}}
}
