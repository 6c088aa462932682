package watch

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/store"
)

// An API server whose etcd was restored from a backup has a new history, with lower
// resourceVersions. The store finds out by a list: see store.ReplaceSince. A watch from
// a resourceVersion of the old history isn't refused. It says nothing until the new
// history has got there, so a list must be made first.

// noteList notes what the list that the Reflector asks for can't be older than. A list
// without a resourceVersion is the newest there is.
func (w *Watcher) noteList(opts metav1.ListOptions) {
	if opts.Continue != "" {
		return // a further page
	}
	asked := opts.ResourceVersion
	if asked == "" {
		asked = w.Store.Position(w.stream)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.asked = asked
}

// checkHistory returns an error if the API server hasn't come to a resourceVersion that
// a watch has delivered. The Reflector lists anew then. checkHistory asks for a list of
// one object. It is called after a watch that ended before its time, as all do when
// an etcd is restored.
func (w *Watcher) checkHistory(ctx context.Context, delivered string) error {
	list, err := w.Client.List(ctx, w.Kind, w.Namespace, metav1.ListOptions{LabelSelector: w.Selector, Limit: 1})
	if err != nil {
		return err
	}
	if store.Older(list.ResourceVersion, delivered) {
		return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is of another history: the newest one is %s", delivered, list.ResourceVersion))
	}
	return nil
}

// replace puts a complete list into the store. asked is what the list can't be older
// than, unless the API server has a new history.
func (w *Watcher) replace(ctx context.Context, asked string, listed []*client.WireObject, version string) store.Change {
	change, startedOver := w.Store.ReplaceSince(asked, w.stream, resourcesOf(listed), version)
	if startedOver {
		w.Log.WarnContext(ctx, "the API server's resourceVersions have gone back, as after a restore of etcd from a backup; starting over with the list",
			"type", w.Kind.Type.String(), "from", asked, "to", version)
		if w.StartedOver != nil {
			w.StartedOver()
		}
	}
	return change
}
