package watch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/engine/revision"
)

// settleTime is how long after a lost connection the storage is looked at: the other
// watches are lost by then, too.
const settleTime = time.Second

// FindRestore makes a list of one object after each loss of the connection, to find out
// whether etcd was restored (S356). While that fails, it is tried again with backoff. watchers returns those
// that run. FindRestore may run several times in a process: one of them makes the list. It returns when ctx ends.
func FindRestore(ctx context.Context, storage *revision.Storage, watchers func() []*Watcher) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-storage.Doubts():
		}
		for delay := settleTime; ; delay = min(2*delay, lastRetry) {
			if !sleep(ctx, delay) {
				storage.Doubt() // another one may go on
				return
			}
			select {
			case <-storage.Doubts(): // the same loss, as another watcher has noticed it
			default:
			}
			if compare(ctx, watchers()) {
				break
			}
		}
	}
}

// compare compares the revision of the storage with the type of which the newest version is known, and
// returns false if the request has failed.
func compare(ctx context.Context, watchers []*Watcher) bool {
	if len(watchers) == 0 {
		return false
	}
	w := slices.MaxFunc(watchers, func(a, b *Watcher) int { return cmp.Compare(a.known.Newest(), b.known.Newest()) })
	return w.Client.Compare(ctx, w.Kind, w.Namespace, w.Fields) == nil
}
