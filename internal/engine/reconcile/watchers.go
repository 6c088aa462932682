package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/watch"
)

// Watchers returns new watchers that fill the engine's store, one per type and
// namespace. They don't run yet. fatal is called with an error that makes a start
// pointless, such as a missing right; it may be nil if the watchers are never run.
func (e *Engine) Watchers(fatal func(error)) []*watch.Watcher {
	namespaces := e.Config.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var out []*watch.Watcher
	for _, k := range e.Types.All() {
		selector := e.ChildSelector()
		if k == e.Types.Parent {
			selector = e.Config.ParentSelector
		}
		of := namespaces
		if !k.Namespaced {
			of = []string{metav1.NamespaceAll}
		}
		var regained func()
		if k == e.Types.Parent {
			regained = e.lookAgain
		}
		for _, namespace := range of {
			out = append(out, watch.New(watch.Config{
				Kind: k, Namespace: namespace, Selector: selector,
				Client: e.client, Store: e.store, History: e.served, Log: e.log, Metrics: e.metrics.Of(k.Type), Changed: e.changed, Fatal: fatal,
				Interrupted: e.interrupted(k), StartedOver: e.startedOver, Regained: regained,
			}))
		}
	}
	return out
}
