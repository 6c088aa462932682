package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// TestRetainStripped: a child that is to be retained survives its parent also if it has lost its labels, and no pass has
// put them back.
func TestRetainStripped(t *testing.T) {
	for name, stop := range map[string]func(r *rig.Rig){
		"Paused": func(r *rig.Rig) {
			r.Change(sample.ParentType(), "one", func(o map[string]any) {
				o["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "true"}
			})
		},
		"HandlerFails": func(r *rig.Rig) { r.SetSpec("one", "bad") },
		"GateCloses":   func(r *rig.Rig) { r.SetSpec("one", "closed") },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.Children[0].Retain = true
				server := rig.Server()
				r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					value, _ := req.Parent.Field("spec", "value")
					if value == "bad" {
						return nil, errors.New("bad")
					}
					return &handler.SyncResponse{Children: []any{handler.When(rig.Copied("one", "v"), value != "closed")}}, nil
				}))
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				stop(r)
				rig.Elapse(time.Minute)
				r.Change(k8s.ConfigMap, "one", func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") })
				rig.Elapse(time.Minute)
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(time.Minute)
				require.Nil(t, r.Get(sample.ParentType(), "one"))
				server.CollectGarbage()
				rig.Elapse(time.Minute)
				r.Stop()
				require.NotNil(t, r.Get(k8s.ConfigMap, "one"), "it is retained")
			})
		})
	}
}
