package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
)

// Before its first reconciliation an engine makes lists: of each type and namespace. While
// it does, the lease is held and nothing is reconciled, so they run in parallel. The rate
// limit of the client, if there is one, holds for them as for all requests.

const (
	// listsAtOnce bounds how many lists of an operator run at once at the start.
	listsAtOnce = 16
	// listRetry is how long after a failed list at the start the list is tried again.
	listRetry = time.Second
)

// A startList is one of the lists that are made before the first reconciliation.
type startList struct {
	kind *catalog.Kind
	list func(context.Context) error
	// needless reports, after an error, whether the list isn't needed any more.
	needless func(ctx context.Context, err error) bool
	// forbidden returns the error of RBAC with what is to be done about it.
	forbidden func(error) error
}

// makeLists makes lists until each has succeeded, ctx ends, or one is forbidden. It returns
// the error of that one, or of ctx. A list that fails is tried again every second, and has no
// place among the listsAtOnce meanwhile. failed is called with the first error of each type.
func (e *Engine) makeLists(ctx context.Context, lists []startList, failed func(resource.Type, error)) error {
	var mu sync.Mutex
	told := map[resource.Type]struct{}{}
	tell := func(t resource.Type, err error) {
		mu.Lock()
		_, again := told[t]
		told[t] = struct{}{}
		mu.Unlock()
		if !again {
			failed(t, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range lists {
		group.Go(func() error { return e.makeList(ctx, l, tell) })
	}
	return group.Wait()
}

// makeList is makeLists for one list.
func (e *Engine) makeList(ctx context.Context, l startList, failed func(resource.Type, error)) error {
	for {
		err := e.listOnce(ctx, l.list)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case l.needless(ctx, err):
			return nil
		case apierrors.IsForbidden(err):
			return l.forbidden(err)
		}
		failed(l.kind.Type, err)
		if !sleep(ctx, listRetry) {
			return ctx.Err()
		}
	}
}

// listOnce calls list once fewer than listsAtOnce others run.
func (e *Engine) listOnce(ctx context.Context, list func(context.Context) error) error {
	select {
	case e.lists <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.lists }()
	return list(ctx)
}

// allLists calls list for every list, and returns when all calls have ended. The first error
// ends the context of the others, and is returned.
func (e *Engine) allLists(ctx context.Context, n int, list func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error { return e.listOnce(ctx, func(ctx context.Context) error { return list(ctx, i) }) })
	}
	return group.Wait()
}

// Refresh lists every type into the store, which is up to date then with what another
// replica has done while it held the lease: a handler must not be shown a parent that was
// finalized by the other replica, and of which the watch hasn't told yet. A list that fails is
// tried again. Refresh returns an error if ctx ends, or if a list is forbidden: this process
// must not hold the lease and do nothing then. A type that isn't served any more, or has just
// come, is left out.
func (e *Engine) Refresh(ctx context.Context) error {
	watchers := e.Mirroring()
	lists := make([]startList, 0, len(watchers))
	for _, w := range watchers {
		lists = append(lists, startList{
			kind:     w.Kind,
			list:     w.Refresh,
			needless: func(context.Context, error) bool { return w.HasEnded() },
			forbidden: func(err error) error {
				return fmt.Errorf("can't begin to lead: %w", catalog.Forbidden(w.Kind, "list", err))
			},
		})
	}
	return e.makeLists(ctx, lists, func(_ resource.Type, err error) {
		e.log.WarnContext(ctx, "can't begin to lead yet, retrying", "error", err)
	})
}

// ListedAt returns when the API server last sent a page of a list to this operator, the zero
// time if it hasn't.
func (e *Engine) ListedAt() time.Time { return e.client.ListedAt() }
