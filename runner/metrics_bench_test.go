package runner

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/resource"
)

// benchEngine is an engine without an API server, with one parent that needs
// nothing.
func benchEngine(b *testing.B) (*engine, *resource.Resource) {
	b.Helper()
	parent, err := resource.New(map[string]any{
		"apiVersion": testParentType().APIVersion, "kind": testParentType().Kind,
		"metadata": map[string]any{"namespace": "ns", "name": "one", "uid": "uid-1", "resourceVersion": "1"},
	})
	require.NoError(b, err)
	k := &kind{Type: testParentType(), namespaced: true}
	types := &catalog{parent: k, byType: map[resource.Type]*kind{k.Type: k}}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{}, nil
	})
	e := newEngine(defaults.Apply(rigConfig()), h, types, nil, nil, discardLog())
	benchMetrics(b, e)
	e.store.observe(stream{Type: k.Type}, parent)
	return e, parent
}

func benchMetrics(b testing.TB, e *engine) {
	b.Helper()
	e.metrics = newMetrics()
	require.NoError(b, e.metrics.register(prometheus.NewRegistry(), e, func() bool { return true }, func() []*watcher { return nil }))
}

// BenchmarkQuietPass is a pass that finds nothing to do.
func BenchmarkQuietPass(b *testing.B) {
	e, parent := benchEngine(b)
	ctx := context.Background()
	for b.Loop() {
		e.sync(ctx, due{UID: parent.UID(), Trigger: "bench"})
	}
}

// BenchmarkWatchEvent is an event of a parent, from the Reflector to the queue.
func BenchmarkWatchEvent(b *testing.B) {
	e, _ := benchEngine(b)
	w := e.watchers(nil)[0]
	const versions = 1000
	var events []*wireObject
	for i := range versions {
		res, err := resource.New(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"ns","name":"one","uid":"uid-1","resourceVersion":"%d"}}`,
			testParentType().APIVersion, testParentType().Kind, 2+i))
		require.NoError(b, err)
		events = append(events, &wireObject{Resource: res})
	}
	for i := 0; b.Loop(); i++ {
		if i%versions == 0 {
			w.store = newResourceMap(testParentType(), testTracking)
		}
		if err := w.Update(events[i%versions]); err != nil {
			b.Fatal(err)
		}
	}
}
