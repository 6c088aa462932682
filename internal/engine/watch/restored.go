package watch

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/engine/revision"
)

// settleTime is how long after a lost connection the storage is looked at: the other
// watches are lost by then, too.
const settleTime = time.Second

// FindRestore makes a list of one object after each loss of the connection, to find out
// whether etcd was restored (S356). While that fails, it is tried again with backoff. watchers returns those
// that run. FindRestore may run several times in a process: one of them makes the list. It returns when ctx ends.
func FindRestore(ctx context.Context, storage *revision.Storage, watchers func() []*Watcher) {
	for delay := settleTime; ; {
		select {
		case <-ctx.Done():
			return
		case <-storage.Losses():
		}
		if !sleep(ctx, delay) {
			storage.ConnectionLost() // another one may go on
			return
		}
		select {
		case <-storage.Losses(): // the same loss, as another watcher has noticed it
		default:
		}
		if compare(ctx, watchers()) {
			delay = settleTime
			continue
		}
		delay = min(2*delay, lastRetry)
		storage.ConnectionLost() // perhaps another one can
	}
}

// compare compares the revision of the storage with the type of which the newest version is known, of those that may be
// listed. It returns false if that has failed.
func compare(ctx context.Context, watchers []*Watcher) bool {
	newest := slices.SortedFunc(slices.Values(watchers), func(a, b *Watcher) int { return cmp.Compare(b.known.Newest(), a.known.Newest()) })
	for _, w := range newest {
		err := w.Client.Compare(ctx, w.Kind, w.Namespace, w.Fields)
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return err == nil
		}
	}
	return false
}
