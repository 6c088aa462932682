package reconcile

import (
	"github.com/roperator/roperator/internal/engine/watch"
)

// Watchers returns new watchers that fill the engine's store, one per type and
// namespace. They don't run yet. fatal is called with an error that makes a start
// pointless, such as a missing right; it may be nil if the watchers are never run.
func (e *Engine) Watchers(fatal func(error)) []*watch.Watcher {
	var out []*watch.Watcher
	for _, k := range e.Types.All() {
		var regained func()
		if k == e.Types.Parent {
			regained = e.lookAgain
		}
		for _, namespace := range e.NamespacesOf(k) {
			out = append(out, watch.New(watch.Config{
				Kind: k, Namespace: namespace, Selector: e.SelectorOf(k),
				Client: e.client, Store: e.store, History: e.served, Log: e.log, Metrics: e.metrics.Of(k.Type), Changed: e.changed, Fatal: fatal,
				Interrupted: e.interrupted(k), StartedOver: e.startedOver, Regained: regained,
			}))
		}
	}
	return out
}
