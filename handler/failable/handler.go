package failable

import (
	"context"

	"github.com/roperator/roperator/handler"
)

// A Handler decides about parents of one type in steps. V is what validation
// makes of a parent, often the parent decoded into a struct; a pointer lets
// SyncChildren leave something in it for DetermineStatus.
//
// Its methods are called for different parents at the same time, but never
// twice at once for the same parent. The texts of errors appear in events, so
// they must hold nothing secret.
//
// A Handler with nothing to finalize says so with a method Finalizes() bool
// that returns false; embed [NothingToFinalize] for that. With any other one and
// config.FinalizerAuto, parents get a finalizer.
type Handler[V any] interface {
	// Validate checks the parent and returns what the other steps need of it.
	// An error skips SyncChildren. Wrap it with handler.Permanent if the
	// parent alone is to blame: then it isn't retried before something changes.
	Validate(ctx context.Context, req *handler.SyncRequest) (V, error)
	// SyncChildren returns all the children that shall exist, as in
	// handler.SyncResponse: nil deletes every child. On an error the children
	// stay as they are, unless Options.DeleteChildrenOnError is set.
	SyncChildren(ctx context.Context, validated V, req *handler.SyncRequest) ([]any, error)
	// DetermineStatus returns the parent's status, as in handler.SyncResponse:
	// nil leaves it alone. It is called after every other step, also when that
	// failed; ctx may have ended by then. The status should be the same for
	// the same request and result: one that holds the time or counts its calls
	// is written over and over.
	DetermineStatus(ctx context.Context, req *handler.SyncRequest, result Result[V]) any
	// Finalize is called instead of Validate and SyncChildren while the parent
	// is being deleted, valid or not. Nil lets the deletion proceed, for good:
	// the status that is determined after it isn't written any more. An error
	// holds the deletion up and says why, and Finalize is called again, so it
	// is also the way to wait for something. To the engine each of these
	// passes has failed.
	Finalize(ctx context.Context, req *handler.SyncRequest) error
}

// A NothingToFinalize is to be embedded in a Handler. It is the Handler's
// Finalize, and its Finalizes, by which the Handler has nothing to finalize: see
// handler.Finalizes.
type NothingToFinalize struct{}

// Finalize lets the deletion proceed.
func (NothingToFinalize) Finalize(context.Context, *handler.SyncRequest) error { return nil }

// Finalizes returns false.
func (NothingToFinalize) Finalizes() bool { return false }

// Funcs returns a Handler with nothing to finalize from two functions, which
// are its SyncChildren and its DetermineStatus; neither may be nil. Its
// Validate decodes the parent into V, a struct or a pointer to one; a parent
// that can't be decoded is a permanent error.
func Funcs[V any](
	syncChildren func(ctx context.Context, parent V, req *handler.SyncRequest) ([]any, error),
	determineStatus func(ctx context.Context, req *handler.SyncRequest, result Result[V]) any,
) Handler[V] {
	return funcs[V]{syncChildren: syncChildren, determineStatus: determineStatus}
}

type funcs[V any] struct {
	NothingToFinalize
	syncChildren    func(context.Context, V, *handler.SyncRequest) ([]any, error)
	determineStatus func(context.Context, *handler.SyncRequest, Result[V]) any
}

func (funcs[V]) Validate(_ context.Context, req *handler.SyncRequest) (V, error) {
	parent, err := handler.ParentAs[V](req)
	return parent, handler.Permanent(err)
}

func (f funcs[V]) SyncChildren(ctx context.Context, validated V, req *handler.SyncRequest) ([]any, error) {
	return f.syncChildren(ctx, validated, req)
}

func (f funcs[V]) DetermineStatus(ctx context.Context, req *handler.SyncRequest, result Result[V]) any {
	return f.determineStatus(ctx, req, result)
}
