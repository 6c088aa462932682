package recording

import (
	"context"
	"slices"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/resource"
)

// A Call is one call of a handler: what it was asked, and what it returned. It holds what
// belongs to the handler and to the engine, who may change it: encode it at once. Err is that of guard.Error.
type Call struct {
	Kind     Kind
	Request  *handler.SyncRequest
	Response any   // a *handler.SyncResponse or *handler.FinalizeResponse; may be nil
	Err      error // may come along with a response
}

// Make calls a handler. A kind of call that handlers don't have is an error. What the
// handler panics with passes through.
func Make(ctx context.Context, h handler.Handler, kind Kind, req *handler.SyncRequest) (Call, error) {
	if err := kind.check(); err != nil {
		return Call{}, err
	}
	c := Call{Kind: kind, Request: asked(req)}
	var failed error
	if kind == KindSync {
		c.Response, failed = h.Sync(ctx, req)
	} else {
		c.Response, failed = h.Finalize(ctx, req)
	}
	c.Err = guard.Error(failed)
	return c, nil
}

// asked returns a copy of a request that the handler can't change.
func asked(req *handler.SyncRequest) *handler.SyncRequest {
	if req == nil {
		return nil
	}
	out := *req
	out.LastErrors = slices.Clone(req.LastErrors)
	return &out
}

// Watch returns a handler that calls inner, and seen with each call that has returned,
// before it returns itself. Of a call that panics, seen isn't told. wants says of each call
// in advance whether seen is to know of it; nil means of all. Both are called concurrently
// if the handler is.
func Watch(inner handler.Handler, wants func(ctx context.Context, req *handler.SyncRequest) bool, seen func(ctx context.Context, c Call)) handler.Handler {
	return &watched{inner: inner, wants: wants, seen: seen}
}

// A watched handler tells of its calls.
type watched struct {
	inner handler.Handler
	wants func(ctx context.Context, req *handler.SyncRequest) bool
	seen  func(ctx context.Context, c Call)
}

// Finalizes passes the engine's question on.
func (w *watched) Finalizes() bool { return handler.Finalizes(w.inner) }

// Relates passes the engine's question on.
func (w *watched) Relates() bool { return handler.Relates(w.inner) }

// Relate passes the engine's question on. What it answers is seen by the related objects
// of the requests.
func (w *watched) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return handler.Relate(w.inner, parent)
}

func (w *watched) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	if w.wants != nil && !w.wants(ctx, req) {
		return w.inner.Sync(ctx, req)
	}
	request := asked(req)
	resp, err := w.inner.Sync(ctx, req)
	w.seen(ctx, Call{Kind: KindSync, Request: request, Response: resp, Err: guard.Error(err)})
	return resp, err
}

func (w *watched) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	if w.wants != nil && !w.wants(ctx, req) {
		return w.inner.Finalize(ctx, req)
	}
	request := asked(req)
	resp, err := w.inner.Finalize(ctx, req)
	w.seen(ctx, Call{Kind: KindFinalize, Request: request, Response: resp, Err: guard.Error(err)})
	return resp, err
}
