package handler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
)

// A Handler decides about parents of one type.
//
// The engine calls it for different parents at the same time, but never twice
// at once for the same parent. The context ends when the engine's shutdown
// timeout or the operator's HandlerTimeout expires, or when this process loses
// its Lease. It says by [IsPlan] whether the call is part of a plan.
//
// With config.FinalizerAuto, parents get a finalizer if the Handler has something
// to finalize: see [Finalizes].
type Handler interface {
	// Sync returns the children that shall exist and the parent's status.
	//
	// An error means that the pass has failed. The children stay as they are,
	// the error is logged, counted and recorded as a Warning event on the
	// parent, and the call is repeated with exponential backoff; see
	// [Permanent]. A response that is returned along with the error is what the
	// user is told of it: its Status and Events are written, its Resync, if
	// more than 0, is when to try again in place of the backoff, and its
	// Children are ignored. Without a response the status stays as it is, too,
	// but for the conditions of config.Operator.ReadyCondition.
	//
	// A panic is an error, and so is a nil response without one. The text of an error is
	// taken once, right after the call. If its method Error panics, or if it is a nil pointer, the
	// text names its type.
	Sync(ctx context.Context, req *SyncRequest) (*SyncResponse, error)
	// Finalize is called instead of Sync while the parent is being deleted
	// and carries the operator's finalizer: at least once per deletion, until
	// it returns Finalized. It may find that children are gone already. It isn't
	// called if the Handler has nothing to finalize, or with config.FinalizerNever.
	//
	// An error is what it is to Sync, and the deletion doesn't proceed. Of a
	// response that is returned along with it, Status and Events are written,
	// Retry, if more than 0, takes the place of the backoff, and Finalized and
	// Children are ignored.
	Finalize(ctx context.Context, req *SyncRequest) (*FinalizeResponse, error)
}

// A SyncFunc is a Handler with nothing to finalize.
type SyncFunc func(ctx context.Context, req *SyncRequest) (*SyncResponse, error)

// Sync calls f. A nil f keeps the children as they are.
func (f SyncFunc) Sync(ctx context.Context, req *SyncRequest) (*SyncResponse, error) {
	if f == nil {
		return &SyncResponse{KeepChildren: true}, nil
	}
	return f(ctx, req)
}

// Finalize reports that the parent is finalized.
func (f SyncFunc) Finalize(context.Context, *SyncRequest) (*FinalizeResponse, error) {
	return &FinalizeResponse{Finalized: true}, nil
}

// A Funcs is a Handler from functions. A nil function means the default.
type Funcs struct {
	// SyncFunc is called by Sync. The default leaves the status and the
	// children as they are.
	SyncFunc func(ctx context.Context, req *SyncRequest) (*SyncResponse, error)
	// FinalizeFunc is called by Finalize. The default returns Finalized. If it is nil,
	// the Handler has nothing to finalize: see [Finalizes].
	FinalizeFunc func(ctx context.Context, req *SyncRequest) (*FinalizeResponse, error)
	// ErrorFunc returns what goes with an error of SyncFunc: a status, nil to
	// leave it alone, and when to try again, 0 for the engine's backoff. The
	// pass fails all the same, as [Handler] says of a Sync that returns a
	// response and an error. A permanent error isn't retried by itself, but is
	// after a time that ErrorFunc names. What SyncFunc returned beside the
	// error isn't used. The default returns both to the engine.
	ErrorFunc func(ctx context.Context, req *SyncRequest, err error) (status any, resync time.Duration)
	// RelateFunc is called by Relate. By default a parent refers to nothing but what
	// the Fields of config.Operator.Related say.
	RelateFunc func(parent *resource.Resource) ([]Ref, error)
}

// Sync calls SyncFunc, and ErrorFunc if that fails. The error is SyncFunc's.
func (f Funcs) Sync(ctx context.Context, req *SyncRequest) (*SyncResponse, error) {
	response, err := SyncFunc(f.SyncFunc).Sync(ctx, req)
	if err == nil || f.ErrorFunc == nil {
		return response, err
	}
	status, resync := f.ErrorFunc(ctx, req, err)
	return &SyncResponse{Status: status, Resync: resync}, err
}

// Finalize calls FinalizeFunc.
func (f Funcs) Finalize(ctx context.Context, req *SyncRequest) (*FinalizeResponse, error) {
	if f.FinalizeFunc == nil {
		return &FinalizeResponse{Finalized: true}, nil
	}
	return f.FinalizeFunc(ctx, req)
}

// Relate calls RelateFunc.
func (f Funcs) Relate(parent *resource.Resource) ([]Ref, error) {
	if f.RelateFunc == nil {
		return nil, nil
	}
	return f.RelateFunc(parent)
}

// Finalizes returns true if a Handler has something to finalize, which decides for
// config.FinalizerAuto:
//
//   - A SyncFunc has nothing.
//   - A Funcs has something if its FinalizeFunc is set. The same holds for the Handler that
//     [Typed] returns.
//   - Any other type with a method Finalizes() bool has what the method returns. A Handler
//     that wraps another one returns Finalizes of that one.
//   - Any other type has something.
func Finalizes(h Handler) bool {
	switch h := h.(type) {
	case SyncFunc:
		return false
	case Funcs:
		return h.FinalizeFunc != nil
	case *Funcs:
		return h.FinalizeFunc != nil
	case interface{ Finalizes() bool }:
		return h.Finalizes()
	}
	return true
}

// IsPlan says whether the call with this context is part of a pass in which nothing is
// written: one of the subcommand plan and of runner.Plan, or of an operator with
// config.Operator.DryRun. The engine writes nothing to the API server in such a pass, and
// can't keep a handler from writing elsewhere. So a handler that changes systems outside
// the cluster asks IsPlan first, and leaves them alone if it is true:
//
//	if !found && !handler.IsPlan(ctx) {
//		found, err = register(ctx, req.Parent)
//	}
//
// Finalize isn't called in such a pass. A plan may call Sync several times for one parent.
//
// IsPlan is false for a context that isn't a call's, and in testkit.Sync unless the
// operator that it is given has DryRun set.
func IsPlan(ctx context.Context) bool { return dryrun.Marked(ctx) }

// Permanent marks an error as one that trying again can't help: the engine
// doesn't retry before the parent, a child or a related object changes, unless the response that
// goes with the error names a delay. errors.Is and errors.As see the error
// inside. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	if _, already := errors.AsType[*permanentError](err); already {
		return err
	}
	return &permanentError{err: err}
}

// A permanentError is found by its method Permanent.
type permanentError struct{ err error }

func (e *permanentError) Error() string   { return e.err.Error() }
func (e *permanentError) Unwrap() error   { return e.err }
func (e *permanentError) Permanent() bool { return true }

// Keep returns a desired child that says: r shall exist, exactly as it is. It
// is neither compared nor changed, under any strategy, nor created again if it
// is gone. One exception: a child that the operator has created and that has lost
// the operator's labels gets them back. r is one of the request's children.
func Keep(r *resource.Resource) any { return encode.Kept{Resource: r} }

// Leave returns a desired child that says: the fields of child at these paths are
// others' from now on. It is for one child what config.Child.IgnoreFields is for a
// type, and the paths are written as they are there:
//
//	handler.Leave(deployment, "spec.replicas")
//
// The fields are set, with the values that they have in child, if the child is
// created. From then on they are neither compared, changed nor unset, whether child
// has them or not. A field that an earlier response had set keeps its live value.
// So it can be handed over to an autoscaler without a moment in which it is unset.
// A response that returns the field without Leave owns it again.
//
// child is anything that may be a child, also what Keep or Leave returns. A path
// that can't be read makes the response invalid. Leave without paths is child.
func Leave(child any, paths ...string) any {
	if len(paths) == 0 {
		return child
	}
	return encode.Left{Child: child, Paths: slices.Clone(paths)}
}

// After returns a desired child that says: child isn't created before each of needs is there
// and is ready. It orders what has to come up one after the other:
//
//	db := database(parent)
//	migration := handler.After(migrate(parent), db)
//	web := handler.After(deployment(parent), db, migration)
//	return &handler.SyncResponse{Children: []any{db, migration, web}}, nil
//
// A need is another child of the same response, or a related object: see config.Related. It is
// anything that may be a child, an object of the request, or a [Ref] with a Name: the engine goes
// by its type, namespace and name. A need in no namespace is in the parent's, as a child is. A
// need that is neither in the response nor among what the parent refers to makes the response
// invalid, and so do children that need each other.
//
// An object is ready if package readiness says that it is Current, and if the engine has nothing
// left to write to it. One that waits for its turn in a rolling update (see config.Roll) counts as
// it is until then. A Job must be complete besides, and a Pod must not have failed.
//
// Only the creation of child waits. A child that is there is treated as ever, whatever becomes of
// its needs: it is neither deleted nor frozen. A child that the strategy Recreate has
// deleted is created anew at once. Waiting is no error. Log and Event say what is waited for, and the
// parent is looked at again when that changes. The status is written meanwhile, with the
// observedGeneration that it had.
//
// child is anything that may be a child, also what [Leave], [When] or After returns. After without
// needs is child.
func After(child any, needs ...any) any {
	if len(needs) == 0 {
		return child
	}
	return encode.Gated{Child: child, Needs: slices.Clone(needs)}
}

// When returns a desired child that isn't created while ok is false. It is [After] with a condition
// of the handler's own: once child is there, ok makes no difference, and nothing is deleted for it.
// The handler is asked again when the parent, a child or a related object changes, or after the
// Resync of its response.
func When(child any, ok bool) any {
	if ok {
		return child
	}
	return encode.Gated{Child: child, Closed: true}
}
