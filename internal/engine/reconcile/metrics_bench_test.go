package reconcile

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
)

// benchEngine is an engine without an API server, with one parent that needs
// nothing.
func benchEngine(b *testing.B) (*Engine, *resource.Resource) {
	b.Helper()
	parent, err := resource.New(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"namespace": "ns", "name": "one", "uid": "uid-1", "resourceVersion": "1"},
	})
	require.NoError(b, err)
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{}, nil
	})
	e := testEngine(b, settings.For(), h)
	e.store.Observe(store.Stream{Type: sample.ParentType()}, parent)
	return e, parent
}

// testEngine returns an engine that can't make a request, with metrics that
// somebody may read.
func testEngine(t testing.TB, s *catalog.Settings, h handler.Handler) *Engine {
	t.Helper()
	m := observe.NewMetrics()
	var watched []resource.Type
	for _, k := range s.Types.All() {
		watched = append(watched, k.Type)
	}
	_, err := m.Register(prometheus.NewRegistry(), s.Config.Name, "", watched, func() observe.Gauges { return observe.Gauges{} })
	require.NoError(t, err)
	return New(Config{Settings: s, Handler: h, Metrics: m, Log: sample.DiscardLog()})
}

// BenchmarkQuietPass is a pass that finds nothing to do.
func BenchmarkQuietPass(b *testing.B) {
	e, parent := benchEngine(b)
	ctx := context.Background()
	for b.Loop() {
		e.sync(ctx, "", schedule.Due{UID: parent.UID(), Trigger: "bench"})
	}
}

// BenchmarkWatchEvent is an event of a parent, from the Reflector to the queue.
func BenchmarkWatchEvent(b *testing.B) {
	e, _ := benchEngine(b)
	e.Watchers(nil)
	w := e.Running()[0]
	const versions = 1000
	var events []*client.WireObject
	for i := range versions {
		res, err := resource.New(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"ns","name":"one","uid":"uid-1","resourceVersion":"%d"}}`,
			sample.ParentType().APIVersion, sample.ParentType().Kind, 2+i))
		require.NoError(b, err)
		events = append(events, &client.WireObject{Resource: res})
	}
	for i := 0; b.Loop(); i++ {
		if i%versions == 0 {
			w.Store = store.New(sample.ParentType(), sample.TrackingLabel)
		}
		if err := w.Update(events[i%versions]); err != nil {
			b.Fatal(err)
		}
	}
}
