package watch

import (
	"errors"

	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// The exported methods in this file implement cache.ReflectorStore. Only the Reflector
// calls them.

// Add stores an object that has been created, or has come to match the selector.
func (w *Watcher) Add(obj any) error {
	w.Metrics.Added.Inc()
	return w.take(obj)
}

// Update stores the new state of an object.
func (w *Watcher) Update(obj any) error {
	w.Metrics.Modified.Inc()
	return w.take(obj)
}

// Delete removes an object that has been deleted, or doesn't match the selector any
// more.
func (w *Watcher) Delete(obj any) error {
	w.Metrics.Deleted.Inc()
	w.hear()
	res, err := observed(obj)
	if err != nil {
		return err
	}
	w.known.See(res.ResourceVersion())
	if w.Owns != nil && !w.Owns(res.UID()) {
		return nil
	}
	w.Changed(w.Store.ObserveDeleted(w.stream, res), schedule.Fresh, trigger(res))
	return nil
}

// Replace stores a complete list. The parents of the first list are due in the
// backlog, those that a later list concerns are fresh.
func (w *Watcher) Replace(list []any, version string) error {
	listed := make([]*client.WireObject, 0, len(list))
	for _, obj := range list {
		if _, err := observed(obj); err != nil {
			return err
		}
		listed = append(listed, obj.(*client.WireObject)) //nolint:forcetypeassert // observed has checked it
	}
	listed = w.owned(listed)
	w.Metrics.Lists.Inc()
	w.resumes.Store(true) // what the stream of a list tells from now on is what a watch would
	w.hear()
	w.mu.Lock()
	since := w.mu.since
	w.mu.Unlock()
	if err := w.known.Compare(since, version); err != nil {
		return err
	}
	w.mu.Lock()
	first := !w.mu.synced
	w.mu.synced = true
	w.mu.Unlock()
	p := schedule.Fresh
	if first {
		p = schedule.Backlog
	}
	change := w.Store.Replace(w.stream, resourcesOf(listed), version)
	if first {
		w.hold(listed)
	}
	w.Changed(change, p, "list of "+schedule.Trigger(w.Kind.Type.Kind))
	if first {
		close(w.synced)
	}
	return nil
}

// Bookmark notes the resourceVersion up to which every event has been delivered.
func (w *Watcher) Bookmark(version string) error {
	w.Metrics.Bookmarks.Inc()
	w.hear()
	w.known.See(version)
	w.Store.Bookmark(w.stream, version)
	return nil
}

// Resync does nothing: the Reflector is given no resync period.
func (w *Watcher) Resync() error { return nil }

// take stores a state of an object that the watch has delivered.
func (w *Watcher) take(obj any) error {
	w.hear()
	res, err := observed(obj)
	if err != nil {
		return err
	}
	w.known.See(res.ResourceVersion())
	if w.Owns != nil && !w.Owns(res.UID()) {
		return nil
	}
	w.Changed(w.Store.Observe(w.stream, res), schedule.Fresh, trigger(res))
	return nil
}

// trigger names an object as the reason of a pass.
func trigger(res *resource.Resource) schedule.Trigger {
	return schedule.Trigger(object.RefOf(res).String())
}

// observed returns the object that the client has decoded for the Reflector.
func observed(obj any) (*resource.Resource, error) {
	if o, ok := obj.(*client.WireObject); ok && o.Resource != nil {
		return o.Resource, nil
	}
	return nil, errors.New("watch: not an object of a watched type")
}
