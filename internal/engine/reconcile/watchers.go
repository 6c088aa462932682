package reconcile

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/resource"
)

// A watching is the watchers of an engine. It is safe for concurrent use.
type watching struct {
	mu struct {
		sync.Mutex
		watchers []*watch.Watcher // those that run or are about to; nil: none was made yet
		stops    map[*watch.Watcher]context.CancelFunc
	}
}

// add adds watchers.
func (w *watching) add(watchers ...*watch.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.watchers = append(slices.Clip(w.mu.watchers), watchers...)
}

// all returns the watchers. The slice is read only.
func (w *watching) all() []*watch.Watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.watchers
}

// run runs a watcher until ctx ends, or until end is called for its type.
func (w *watching) run(ctx context.Context, one *watch.Watcher) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	if !slices.Contains(w.mu.watchers, one) {
		stop()
	}
	if w.mu.stops == nil {
		w.mu.stops = map[*watch.Watcher]context.CancelFunc{}
	}
	w.mu.stops[one] = stop
	w.mu.Unlock()
	one.Run(ctx)
	w.mu.Lock()
	delete(w.mu.stops, one)
	w.mu.Unlock()
}

// end ends the watchers of a type, and takes them out.
func (w *watching) end(t resource.Type) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.watchers = slices.DeleteFunc(slices.Clone(w.mu.watchers), func(one *watch.Watcher) bool {
		if one.Kind.Type != t {
			return false
		}
		if stop := w.mu.stops[one]; stop != nil {
			stop()
		}
		return true
	})
}

// Watchers makes the watchers that fill the engine's store, one per type and namespace.
// They don't run before Watch. fatal is called with an error that makes a start pointless,
// such as a missing right.
func (e *Engine) Watchers(fatal func(error)) {
	for _, k := range e.types().All() {
		e.watching.add(e.watchersOf(k, fatal)...)
	}
}

// Running returns the watchers. The slice is read only. There are fewer while a type isn't
// served, and none before Watchers.
func (e *Engine) Running() []*watch.Watcher { return e.watching.all() }

// Mirroring returns the watchers of the types that passes write: all but those of a type that
// has just come.
func (e *Engine) Mirroring() []*watch.Watcher {
	types := e.types()
	return slices.DeleteFunc(slices.Clone(e.Running()), func(w *watch.Watcher) bool { return types.Of(w.Kind.Type).Unserved })
}

// HasSynced says whether every type that is served has been mirrored at least once.
func (e *Engine) HasSynced() bool {
	for _, w := range e.Running() {
		select {
		case <-w.Synced():
		case <-w.Ended():
		default:
			return false
		}
	}
	return true
}

// AwaitSynced returns true once every type that is served is mirrored, false if ctx has
// ended.
func (e *Engine) AwaitSynced(ctx context.Context) bool {
	for _, w := range e.Running() {
		select {
		case <-w.Synced():
		case <-w.Ended():
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// watchersOf returns new watchers of a type, none if the type isn't served.
func (e *Engine) watchersOf(k *catalog.Kind, fatal func(error)) []*watch.Watcher {
	if k.Unserved {
		return nil
	}
	var out []*watch.Watcher
	var owns func(types.UID) bool
	if k == e.Types.Parent && e.Shard.Divides() {
		owns = e.Shard.Owns
	}
	for _, namespace := range e.NamespacesOf(k) {
		out = append(out, watch.New(watch.Config{
			Kind: k, Namespace: namespace, Selector: e.SelectorOf(k), Owns: owns,
			Client: e.client, Store: e.store, Log: e.log, Metrics: e.metrics.Of(k.Type), Changed: e.changed, Fatal: fatal,
			Interrupted: e.interrupted(k),
		}))
	}
	return out
}

// types returns the catalog as it is now.
func (e *Engine) types() *catalog.Catalog { return e.current.Load().Types }
