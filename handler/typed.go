package handler

import (
	"context"
	"time"

	"github.com/roperator/roperator/resource"
)

// A TypedFuncs is what a Handler of Typed may have beside its Sync. A nil function
// means the default of Funcs.
type TypedFuncs[P any] struct {
	// SyncFunc takes the place of the first function of Typed, which may be nil then. It
	// gets the whole request, with the related objects in it.
	SyncFunc func(ctx context.Context, parent P, req *SyncRequest) (*SyncResponse, error)
	// FinalizeFunc is Funcs.FinalizeFunc for the decoded parent.
	FinalizeFunc func(ctx context.Context, parent P, req *SyncRequest) (*FinalizeResponse, error)
	// ErrorFunc is Funcs.ErrorFunc. It is called for a parent that can't be decoded, too, and
	// so gets the request alone.
	ErrorFunc func(ctx context.Context, req *SyncRequest, err error) (status any, resync time.Duration)
	// RelateFunc is Funcs.RelateFunc for the decoded parent.
	RelateFunc func(parent P) ([]Ref, error)
}

// Typed returns a Handler for a parent that is decoded into P, a struct or a pointer
// to one. A parent that can't be decoded is a permanent error. The Handler finalizes and
// relates if one of more does; of several, the last one that has a function counts.
//
//	handler.Typed(nil, handler.TypedFuncs[*Site]{SyncFunc: sync, RelateFunc: relate})
func Typed[P any](sync func(ctx context.Context, parent P, children Children) (*SyncResponse, error), more ...TypedFuncs[P]) Handler {
	var funcs Funcs
	if sync != nil {
		more = append([]TypedFuncs[P]{{SyncFunc: func(ctx context.Context, parent P, req *SyncRequest) (*SyncResponse, error) {
			return sync(ctx, parent, req.Children)
		}}}, more...)
	}
	for _, m := range more {
		if m.SyncFunc != nil {
			funcs.SyncFunc = func(ctx context.Context, req *SyncRequest) (*SyncResponse, error) {
				parent, err := ParentAs[P](req)
				if err != nil {
					return nil, Permanent(err)
				}
				return m.SyncFunc(ctx, parent, req)
			}
		}
		if m.FinalizeFunc != nil {
			funcs.FinalizeFunc = func(ctx context.Context, req *SyncRequest) (*FinalizeResponse, error) {
				parent, err := ParentAs[P](req)
				if err != nil {
					return nil, Permanent(err)
				}
				return m.FinalizeFunc(ctx, parent, req)
			}
		}
		if m.ErrorFunc != nil {
			funcs.ErrorFunc = m.ErrorFunc
		}
		if m.RelateFunc != nil {
			funcs.RelateFunc = func(res *resource.Resource) ([]Ref, error) {
				parent, err := resource.As[P](res)
				if err != nil {
					return nil, Permanent(err)
				}
				return m.RelateFunc(parent)
			}
		}
	}
	return funcs
}
