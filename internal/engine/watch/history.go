package watch

import (
	"context"

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
	w.mu.anew, w.mu.startOver = w.mu.anew || w.mu.startOver, false
}

// StartOver ends the watch, and takes the list that follows for the first one of a new
// history, which another watcher has found. The resourceVersions of that history may
// have caught up with this watcher's, so that it would notice nothing.
func (w *Watcher) StartOver() {
	w.mu.Lock()
	w.mu.startOver = true
	events := w.mu.events
	w.mu.Unlock()
	if events != nil {
		events.Stop()
	}
}

// listFirst returns an error, after which the Reflector lists, if StartOver was called.
func (w *Watcher) listFirst() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.startOver {
		return apierrors.NewResourceExpired("the API server has a new history of resourceVersions")
	}
	return nil
}

// checkHistory returns an error if the API server hasn't come to a resourceVersion that
// a watch has delivered, or that a write was answered with. The Reflector lists anew
// then. checkHistory asks for a list of one object. It is called after a watch that
// ended before its time, as all do when an etcd is restored.
func (w *Watcher) checkHistory(ctx context.Context, delivered string) error {
	asked := w.Store.Position(w.stream)
	list, err := w.Client.List(ctx, w.Kind, w.Namespace, metav1.ListOptions{LabelSelector: w.Selector, Limit: 1})
	if err != nil {
		return err
	}
	if !store.Older(list.ResourceVersion, delivered) && !store.Older(list.ResourceVersion, asked) {
		return nil
	}
	w.mu.Lock()
	told := w.mu.startOver
	w.mu.startOver = true
	w.mu.Unlock()
	if w.StartedOver != nil {
		w.StartedOver(!told)
	}
	return w.listFirst()
}

// replace puts a complete list into the store. The list begins a new history if anew is
// set, or if it is older than asked, which it can't be in one history.
func (w *Watcher) replace(ctx context.Context, asked string, anew bool, listed []*client.WireObject, version string) (c store.Change, startedOver bool) {
	if anew {
		c, startedOver = w.Store.StartOver(w.stream, resourcesOf(listed), version), true
	} else {
		c, startedOver = w.Store.ReplaceSince(asked, w.stream, resourcesOf(listed), version)
	}
	if startedOver {
		w.Log.WarnContext(ctx, "the API server's resourceVersions have gone back, as after a restore of etcd from a backup; starting over with the list",
			"type", w.Kind.Type.String(), "from", asked, "to", version)
		w.mu.Lock()
		told := w.mu.startOver || anew
		w.mu.startOver = false
		w.mu.Unlock()
		if w.StartedOver != nil {
			w.StartedOver(!told)
		}
	}
	return c, startedOver
}
