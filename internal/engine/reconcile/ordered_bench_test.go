package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// BenchmarkOrderedPass is a whole pass over a settled parent with 100 children: plain ones; ones each
// of which needs the one before, of a type with Roll; and these with ReadyCondition.
func BenchmarkOrderedPass(b *testing.B) {
	for name, of := range map[string]struct{ ordered, ready bool }{"plain": {}, "ordered": {ordered: true}, "ready": {true, true}} {
		b.Run(name, func(b *testing.B) {
			e, parent := orderedEngine(b, 100, of.ordered, of.ready)
			due := schedule.Due{UID: parent.UID(), Trigger: "resync"}
			b.ReportAllocs()
			for b.Loop() {
				e.sync(context.Background(), "", due)
			}
		})
	}
}

// orderedEngine is an engine without an API server, and a parent whose children are as its handler
// wants them.
func orderedEngine(tb testing.TB, children int, ordered, ready bool) (*Engine, *resource.Resource) {
	tb.Helper()
	child := config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}
	if ordered {
		child.Roll = &config.Roll{}
	}
	s := settings.For(child)
	s.Config.ReadyCondition = ready
	desired := make([]any, children)
	for i := range desired {
		cm := &corev1.ConfigMap{Data: map[string]string{"key": "value", "other": strings.Repeat("x", 200)}}
		cm.Name = fmt.Sprintf("child-%03d", i)
		desired[i] = cm
	}
	returned := desired
	if ordered {
		returned = make([]any, children)
		returned[0] = desired[0]
		for i := 1; i < children; i++ {
			returned[i] = handler.After(desired[i], desired[i-1])
		}
	}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"children": children}, Children: returned}, nil
	})
	e := testEngine(tb, s, h)
	status := map[string]any{"children": int64(children), "observedGeneration": int64(1)}
	if ready {
		plan.SetStanding(status, plan.Standing{State: "Current", Reason: plan.ReasonReady, Message: "all children are as desired and ready"}, nil, 1, false)
		for _, c := range status["conditions"].([]any) {
			c.(map[string]any)["lastTransitionTime"] = "2026-01-01T00:00:00Z"
		}
	}
	parent, err := resource.New(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "status": status,
		"metadata": map[string]any{"namespace": "ns", "name": "one", "uid": "uid-1", "resourceVersion": "1", "generation": 1},
	})
	require.NoError(tb, err)
	e.store.Observe(store.Stream{Type: sample.ParentType()}, parent)
	wanted, err := plan.Desire(e.Settings, parent, returned, &plan.ParentMemory{})
	require.NoError(tb, err)
	observeWritten(tb, e, parent, wanted, nil)
	e.sync(context.Background(), "", schedule.Due{UID: parent.UID(), Trigger: "first"}) // compares
	require.Equal(tb, schedule.Outcome{}, e.sync(context.Background(), "", schedule.Due{UID: parent.UID(), Trigger: "second"}), "the parent is settled")
	return e, parent
}
