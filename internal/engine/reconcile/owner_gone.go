package reconcile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
)

// A child that went along with its parent isn't created again. The watches of
// parents and of children aren't in step, so that the engine may hear of the
// child's end before it hears of the parent's deletion. So before a pass creates a
// child of a parent that has lost children by someone else's doing, it asks the
// API server whether the parent stays.
// The first lists of the two types aren't in step either: a parent may go after the
// parents were listed, and its child before the children were.

// parentGoes says whether the parent is being deleted, or gone. It asks the API
// server only if the parent has lost children that nothing explains, or may have lost
// them before the children were listed.
func (p *pass) parentGoes(ctx context.Context) (bool, error) {
	if p.supposed != nil {
		return false, nil
	}
	uid := p.parent.UID()
	lost := p.store.Lost(uid)
	if lost > 0 && p.store.LostMany() || p.store.ParentsBehind() {
		if err := p.listParents(ctx, uid); err != nil {
			return false, err
		}
		lost = p.store.Lost(uid)
	}
	if lost == 0 { // perhaps since a list has told of the parent after the snapshot
		known, ok := p.store.Parent(uid)
		return !ok || known.IsDeleting(), nil
	}
	goes, err := p.Goes(ctx)
	if err == nil && !goes {
		p.store.Acknowledge(uid, lost)
	}
	return goes, err
}

// Goes asks the API server whether the parent is being deleted, or gone. Writes
// of the pass call it concurrently.
func (p *pass) Goes(ctx context.Context) (bool, error) {
	if p.supposed != nil {
		return false, nil
	}
	now, err := p.client.Get(ctx, p.Types.Parent, p.parent.Key())
	if apierror.IsMissing(err, p.parent.Name()) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether the parent stays: %w", catalog.Forbidden(p.Types.Parent, "get", err))
	}
	return now.UID() != p.parent.UID() || now.IsDeleting(), nil
}

// listParents lists the parents into the store, which tells of the deletion of
// every parent that has lost children until now. It does nothing if the list of
// another pass has explained the losses of the parent with this UID meanwhile.
func (e *Engine) listParents(ctx context.Context, uid types.UID) error {
	select {
	case e.listing <- struct{}{}:
		defer func() { <-e.listing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.store.Lost(uid) == 0 && !e.store.ParentsBehind() {
		return nil
	}
	losses, asOf := e.store.Losses(), e.store.ChildrenAsOf()
	watchers := e.watchersOf(e.Types.Parent, nil)
	err := e.allLists(ctx, len(watchers), func(ctx context.Context, i int) error { return watchers[i].Refresh(ctx) })
	if err != nil {
		return catalog.Forbidden(e.Types.Parent, "list", err)
	}
	for uid, n := range losses {
		e.store.Acknowledge(uid, n)
	}
	e.store.ParentsListed(asOf)
	return nil
}
