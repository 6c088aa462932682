package failable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// Options are what [Wrap] may be told. The zero value is the default.
type Options struct {
	// Backoff is when parents are tried again after an error. The zero value
	// leaves that to the engine: 100 ms, doubled after each further error up
	// to config.Operator.MaxErrorBackoff, lengthened at random, until a
	// success. With any field set the engine's backoff is replaced by that of
	// [BackoffConfig], whose defaults the other fields have.
	Backoff BackoffConfig
	// RegularResync is when to sync again after a success although nothing
	// changed, as for children outside the cluster; 0 or less means never.
	RegularResync time.Duration
	// DeleteChildrenOnError deletes every child of a parent whose Validate or
	// SyncChildren failed, as roperator for Rust did. The pass fails all the
	// same. The default leaves the children as they are.
	DeleteChildrenOnError bool
}

// Wrap returns a handler.Handler that takes the steps of h; the package's
// documentation says in which order, and what an error leads to. The
// handler.Handler has something to finalize unless h has a method
// Finalizes() bool that says otherwise. If h is a handler.Relater, so is the
// handler.Handler.
//
// An error of a step is returned, along with a response that holds the status
// that tells of it. A status that can't be encoded as JSON is an error too: it
// names the parent and the error that the status was to tell of, and the live
// status stays as it is.
//
// What Options.Backoff gives up on is returned as a permanent error. A parent
// whose Finalize is given up is not released. Finalize is called again when the
// parent, a child or a related object changes, or when the operator restarts.
//
// With Options.Backoff the Handler keeps a few words of memory per failing
// parent, as documented at [ErrorBackoff].
func Wrap[V any](h Handler[V], opts Options) handler.Handler {
	w := &wrapped[V]{inner: h, opts: opts}
	if opts.Backoff != (BackoffConfig{}) {
		w.backoff = &ErrorBackoff{Config: opts.Backoff}
	}
	return w
}

type wrapped[V any] struct {
	inner   Handler[V]
	opts    Options
	backoff *ErrorBackoff // nil: the engine's
}

// Finalizes tells handler.Finalizes, and so the engine.
func (w *wrapped[V]) Finalizes() bool {
	if h, ok := w.inner.(interface{ Finalizes() bool }); ok {
		return h.Finalizes()
	}
	return true
}

// Relates tells handler.Relates, and so the engine.
func (w *wrapped[V]) Relates() bool {
	_, ok := w.inner.(handler.Relater)
	return ok
}

// Relate passes on what the inner Handler says, if it is a handler.Relater.
func (w *wrapped[V]) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	if h, ok := w.inner.(handler.Relater); ok {
		return h.Relate(parent)
	}
	return nil, nil
}

// Sync takes the steps of a parent that isn't being deleted.
func (w *wrapped[V]) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	children, result := w.syncChildren(ctx, req)
	status, err := w.status(ctx, req, result)
	if err == nil {
		w.succeeded(req)
		return &handler.SyncResponse{Status: status, Children: children, Resync: max(0, w.opts.RegularResync)}, nil
	}
	delay, err := w.failed(req, err)
	if w.opts.DeleteChildrenOnError && !result.OK() {
		err = &deleteChildrenError{err: err}
	}
	return &handler.SyncResponse{Status: status, Resync: delay}, err
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
		w.succeeded(req)
		// Nobody writes this status, so it can't hold up the deletion either.
		status := w.inner.DetermineStatus(ctx, req, Result[V]{outcome: FinalizeSucceeded})
		return &handler.FinalizeResponse{Finalized: true, Status: status}, nil
	}
	status, err := w.status(ctx, req, Result[V]{outcome: FinalizeFailed, err: err})
	delay, err := w.failed(req, err)
	return &handler.FinalizeResponse{Status: status, Retry: delay}, err
}

// status returns the parent's status, and the error of the pass: that of the
// step that failed, joined with why the status can't be encoded. A status that
// can't be is nil.
func (w *wrapped[V]) status(ctx context.Context, req *handler.SyncRequest, result Result[V]) (any, error) {
	status := w.inner.DetermineStatus(ctx, req, result)
	_, err := json.Marshal(status)
	switch {
	case err == nil:
		return status, result.err
	case result.OK():
		return nil, fmt.Errorf("%s: status: %w", req.Parent, err)
	}
	return nil, fmt.Errorf("%s: status: %w (it was to tell of: %w)", req.Parent, err, result.err)
}

func (w *wrapped[V]) succeeded(req *handler.SyncRequest) {
	if w.backoff != nil {
		w.backoff.Reset(req)
	}
}

// failed returns when to try again, 0 if that is for the engine to say, and the
// error as the engine is to see it: permanent once the backoff has given up.
func (w *wrapped[V]) failed(req *handler.SyncRequest, err error) (time.Duration, error) {
	if w.backoff == nil {
		return 0, err
	}
	if isPermanent(err) {
		w.backoff.Reset(req)
		return 0, err
	}
	delay, ok := w.backoff.Next(req)
	if !ok {
		return 0, handler.Permanent(err)
	}
	return delay, err
}

// isPermanent says that err was wrapped with handler.Permanent.
func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// A deleteChildrenError makes the engine delete the parent's children although
// the pass has failed. The engine knows it by its method DeleteChildren, which
// errors.As finds; nobody else has a use for it, so the type isn't exported.
type deleteChildrenError struct{ err error }

func (e *deleteChildrenError) Error() string        { return e.err.Error() }
func (e *deleteChildrenError) Unwrap() error        { return e.err }
func (e *deleteChildrenError) DeleteChildren() bool { return true }
