package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// TestUnshown_NothingIsDeleted: a child that has lost its labels isn't shown to the handler, which then doesn't want another
// one that follows from it. The pass finds the child when it would create it, and leaves the other one to the next pass, which
// shows both. So does a plan.
func TestUnshown_NothingIsDeleted(t *testing.T) {
	for _, running := range []bool{false, true} {
		for _, adopt := range []bool{false, true} {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Children[0].Adopt = adopt
				rig.CreateParent(t, server, "p", "1")
				calls := 0
				h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					calls++
					children := []any{rig.Copied("first", "1")}
					if _, ok := req.Children.Find(rig.Copied("first", "1")); ok {
						children = append(children, rig.Copied("second", "1"))
					}
					return &handler.SyncResponse{Children: children}, nil
				})
				converge(t, server, cfg, h)
				uid := server.Get(k8s.ConfigMap, rig.Key("second")).UID()
				unlabel := func() {
					spoil(t, server, k8s.ConfigMap, "first", func(o map[string]any) { delete(metaOf(o), "labels") })
				}
				if running {
					r := rig.Start(t, server, cfg, h)
					rig.Elapse(time.Minute)
					unlabel()
					rig.Elapse(time.Minute)
					r.Stop()
				} else {
					unlabel()
					changes, err := changesOf(t, server, cfg, h, rig.PlanOptions{})
					require.NoError(t, err)
					require.Equal(t, "update ConfigMap first metadata.labels", textOf(changes))
					converge(t, server, cfg, h)
				}
				require.Equal(t, uid, server.Get(k8s.ConfigMap, rig.Key("second")).UID(), "running: %t, Adopt: %t: %v", running, adopt, server.Writes())
				require.NotEmpty(t, server.Get(k8s.ConfigMap, rig.Key("first")).Labels())
				changes, err := changesOf(t, server, cfg, h, rig.PlanOptions{})
				require.NoError(t, err)
				require.Empty(t, changes)
			})
		}
	}
}

// TestUnshown_NeverShown: a webhook takes the label off whatever the operator writes, so that no pass ever shows the child. What
// isn't desired is deleted all the same.
func TestUnshown_NeverShown(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		rig.CreateParent(t, server, "p", "1")
		converge(t, server, cfg, wanting(rig.Copied("first", "1"), rig.Copied("second", "1")))
		unlabel := func(o map[string]any) { delete(metaOf(o), "labels") }
		spoil(t, server, k8s.ConfigMap, "first", unlabel)
		server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, o map[string]any) error {
			if r.Type == k8s.ConfigMap && r.Key.Name == "first" {
				unlabel(o)
			}
			return nil
		}})
		changes, err := changesOf(t, server, cfg, wanting(rig.Copied("first", "1")), rig.PlanOptions{})
		require.NoError(t, err)
		require.Contains(t, textOf(changes), "delete ConfigMap second")
		r := rig.Start(t, server, cfg, wanting(rig.Copied("first", "1")))
		rig.Elapse(time.Minute)
		r.Stop()
		require.Nil(t, server.Get(k8s.ConfigMap, rig.Key("second")))
	})
}
