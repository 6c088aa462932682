package buggy

import (
	"context"
	"errors"
	"fmt"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// errNotFound is what a store says of a bucket that it doesn't have.
var errNotFound = errors.New("not found")

// A store has buckets.
type store interface {
	// Put creates a bucket. One that is there already is no error.
	Put(ctx context.Context, name, owner string) error
	// Delete deletes a bucket. It returns errNotFound if there is none.
	Delete(ctx context.Context, name string) error
}

var bucketOperator = config.Operator{Name: "buckets", Parent: kind("Bucket")}

// buckets is a handler that keeps a bucket in the store for each Bucket.
//
// The bug: finalize can't be repeated. It will be: its process may end before the finalizer is off,
// and the store's answer may be lost. Then the bucket is gone, the store says so, and the Bucket
// can never be deleted. What is gone already was what finalize is for: take errNotFound for
// success.
type buckets struct{ store store }

func (b buckets) handler() handler.Handler {
	return handler.Funcs{SyncFunc: b.sync, FinalizeFunc: b.finalize}
}

func (b buckets) sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Key().String()
	if !handler.IsPlan(ctx) {
		if err := b.store.Put(ctx, name, name); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	return &handler.SyncResponse{Status: map[string]any{"bucket": name}}, nil
}

func (b buckets) finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	if err := b.store.Delete(ctx, req.Parent.Key().String()); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return &handler.FinalizeResponse{Finalized: true}, nil
}
