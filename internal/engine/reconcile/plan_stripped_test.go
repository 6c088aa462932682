package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// TestPlan_StrippedDeleting: a child without labels that is being deleted, and held by another's finalizer, is
// waited for. A plan shows the rest, as the operator does the rest.
func TestPlan_StrippedDeleting(t *testing.T) {
	for name, set := range map[string]func(*config.Child){
		"Replace":      func(*config.Child) {},
		"Recreate":     func(c *config.Child) { c.Strategy = config.Recreate },
		"Adopt":        func(c *config.Child) { c.Adopt = true },
		"AdoptOffered": func(c *config.Child) { c.AdoptOffered = true },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				set(&cfg.Children[0])
				h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					value, _ := req.Parent.Field("spec", "value")
					return &handler.SyncResponse{Children: []any{rig.Copied("a", value), rig.Copied("b", value)}}, nil
				})
				r := rig.Start(t, server, cfg, h)
				r.Create("p", "1")
				rig.Elapse(time.Minute)
				r.Stop()
				_, err := server.Change(k8s.ConfigMap, rig.Key("a"), func(o map[string]any) {
					delete(metaOf(o), "labels")
					metaOf(o)["finalizers"] = []any{"foreign.example.com/x"}
				})
				require.NoError(t, err)
				require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("a")))
				_, err = server.Change(k8s.ConfigMap, rig.Key("b"), func(o map[string]any) { o["data"] = map[string]any{"value": "drift"} })
				require.NoError(t, err)
				changes, err := rig.Plan(server, cfg, h)
				require.NoError(t, err)
				require.Len(t, changes, 1)
				require.Equal(t, "b", changes[0].Object.Name)
				r = rig.Start(t, server, cfg, h)
				rig.Elapse(time.Minute)
				value, _ := r.Get(k8s.ConfigMap, "b").Field("data", "value")
				require.Equal(t, "1", value)
				require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
				r.Stop()
			})
		})
	}
}
