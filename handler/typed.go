package handler

import (
	"context"

	"github.com/roperator/roperator/resource"
)

// A TypedFuncs is what a Handler of Typed may have beside its Sync. A nil function
// means the default of Funcs.
type TypedFuncs[P any] struct {
	// FinalizeFunc is Funcs.FinalizeFunc for the decoded parent.
	FinalizeFunc func(ctx context.Context, parent P, req *SyncRequest) (*FinalizeResponse, error)
	// RelateFunc is Funcs.RelateFunc for the decoded parent.
	RelateFunc func(parent P) ([]Ref, error)
}

// Typed returns a Handler for a parent that is decoded into P, a struct or a pointer
// to one. A parent that can't be decoded is a permanent error. The Handler finalizes and
// relates if one of more does; of several, the last one that has a function counts.
func Typed[P any](sync func(ctx context.Context, parent P, children Children) (*SyncResponse, error), more ...TypedFuncs[P]) Handler {
	funcs := Funcs{SyncFunc: func(ctx context.Context, req *SyncRequest) (*SyncResponse, error) {
		parent, err := ParentAs[P](req)
		if err != nil {
			return nil, Permanent(err)
		}
		return sync(ctx, parent, req.Children)
	}}
	for _, m := range more {
		if m.FinalizeFunc != nil {
			funcs.FinalizeFunc = func(ctx context.Context, req *SyncRequest) (*FinalizeResponse, error) {
				parent, err := ParentAs[P](req)
				if err != nil {
					return nil, Permanent(err)
				}
				return m.FinalizeFunc(ctx, parent, req)
			}
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
