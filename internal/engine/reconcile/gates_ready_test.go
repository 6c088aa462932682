package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// TestPlanOfSettledGated: a child that waits for a condition of the handler waits for that while a new process still finds
// out about another one that it needs, too.
func TestPlanOfSettledGated(t *testing.T) {
	pod := func(name string) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"containers": []any{map[string]any{
				"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}},
			}}},
		}
	}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		a := pod("a")
		return &handler.SyncResponse{Children: []any{a, handler.When(handler.After(pod("b"), a), false)}}, nil
	})
	rig.Bubble(t, func(t *testing.T) {
		kind := fakeapi.KindOf(k8s.Pod)
		kind.Plural = "pods"
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind)
		cfg := rig.Config()
		cfg.ReadyCondition = true
		cfg.Children = []config.Child{{Type: k8s.Pod, Strategy: config.Replace}}
		r := rig.Start(t, server, cfg, h)
		r.Create("one", "v")
		rig.Elapse(time.Minute)
		r.Change(k8s.Pod, "a", func(o map[string]any) {
			o["status"] = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
		})
		rig.Elapse(time.Hour) // b waits for the condition
		n := len(server.Writes())
		rig.Elapse(time.Hour)
		require.Len(t, server.Writes(), n, "settled")
		r.Stop()
		changes, err := rig.Plan(server, cfg, h)
		require.NoError(t, err)
		for _, c := range changes {
			if c.Type.Kind == "Parent" {
				t.Errorf("plan: %+v", c)
			}
		}
		r = rig.Start(t, server, cfg, h)
		rig.Elapse(time.Hour)
		r.Stop()
		require.Empty(t, server.Writes()[n:], "a restart writes nothing")
	})
}
