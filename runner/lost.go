package runner

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

const (
	// manyLost is how many parents must have lost children for a list to tell
	// of them all: fewer are read one by one.
	manyLost = 32
	// listedPerRead is how many parents can be listed for what it takes to read
	// one.
	listedPerRead = 16
)

// parentGoes says whether it is for the parent's deletion that it has lost
// children, which aren't to be created again then. The API server is asked,
// since the watches of parents and of children aren't in step: that a child has
// gone may be known before its parent's deletion is.
func (r *engine) parentGoes(ctx context.Context, parent *resource.Resource) (bool, error) {
	uid := parent.UID()
	lost := r.store.lost(uid)
	if lost > 0 && r.store.lostMany() {
		if err := r.listParents(ctx, uid); err != nil {
			return false, err
		}
		lost = r.store.lost(uid)
	}
	if lost == 0 { // or no longer: a list has told since the snapshot
		known, ok := r.store.parent(uid)
		return !ok || known.IsDeleting(), nil
	}
	goes, err := r.readParentGoes(ctx, parent)
	if err == nil && !goes {
		r.store.explain(uid, lost)
	}
	return goes, err
}

// readParentGoes reads whether a parent is being deleted or gone.
func (r *engine) readParentGoes(ctx context.Context, parent *resource.Resource) (bool, error) {
	now, err := r.client.get(ctx, r.types.parent, parent.Key())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether the parent stays: %w", forbidden(r.types.parent, "get", err))
	}
	return now.UID() != parent.UID() || now.IsDeleting(), nil
}

// listParents brings the store up to date for all parents that have lost
// children until now, unless another pass has done so for this one meanwhile.
func (r *engine) listParents(ctx context.Context, uid types.UID) error {
	select {
	case r.listing <- struct{}{}:
		defer func() { <-r.listing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.store.lost(uid) == 0 {
		return nil
	}
	losses := r.store.losses()
	for _, w := range r.watchers(nil) {
		if w.kind != r.types.parent {
			continue
		}
		if err := w.refresh(ctx); err != nil {
			return forbidden(w.kind, "list", err)
		}
	}
	for uid, n := range losses {
		r.store.explain(uid, n)
	}
	return nil
}
