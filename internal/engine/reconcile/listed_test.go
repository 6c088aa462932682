package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// Many parents lose their children at a time, so the parents are listed. The list
// tells of a change of a parent that has failed for good, before the watch does. No
// watch tells of it again.
func TestListed_ChangeOfAFailedParent(t *testing.T) {
	state := func(text string) func(map[string]any) {
		return func(o map[string]any) { o["status"] = map[string]any{"state": text} }
	}
	for name, tc := range map[string]struct {
		reason string
		change func(*testing.T, *rig.Rig)
		done   func(*rig.Rig) bool
	}{
		"Mended": {
			"a user has mended its spec",
			func(_ *testing.T, r *rig.Rig) { r.SetSpec("failed", "mended") },
			func(r *rig.Rig) bool { return r.Get(k8s.ConfigMap, "failed") != nil },
		},
		"MendedStatus": {
			"somebody else has mended its status",
			func(_ *testing.T, r *rig.Rig) { r.Change(sample.ParentType(), "failed", state("mended")) },
			func(r *rig.Rig) bool { return r.Get(k8s.ConfigMap, "failed") != nil },
		},
		"Deleted": {
			"it is finalized",
			func(t *testing.T, r *rig.Rig) {
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("failed")))
			},
			func(r *rig.Rig) bool { return r.Get(sample.ParentType(), "failed") == nil },
		},
		"Departed": {
			"it has left the selector",
			func(_ *testing.T, r *rig.Rig) { r.Change(sample.ParentType(), "failed", label("no")) },
			func(r *rig.Rig) bool { return len(r.Get(sample.ParentType(), "failed").Finalizers()) == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := selecting()
				cfg.Finalizer = config.FinalizerAlways
				var gate atomic.Pointer[chan struct{}] // which handlers wait for
				r := rig.Start(t, rig.Server(), cfg, handler.Funcs{
					SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						if closed := gate.Load(); closed != nil {
							<-*closed
						}
						value, _ := req.Parent.Field("spec", "value")
						status, _ := req.Parent.Field("status", "state")
						if value == "broken" && status != "mended" {
							return nil, handler.Permanent(errors.New("broken"))
						}
						resp, err := rig.Copier(ctx, req)
						resp.Status = nil
						return resp, err
					},
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						return &handler.FinalizeResponse{Finalized: true}, nil
					},
				})
				const others = 40 // enough for a list
				createSelected(t, r, "failed", "broken")
				for i := range others {
					createSelected(t, r, fmt.Sprint("p", i), "v1")
				}
				rig.Elapse(time.Minute)
				require.Len(t, r.Server.List(k8s.ConfigMap), others)

				r.Server.Hold(sample.ParentType(), k8s.ConfigMap)
				tc.change(t, r)
				for i := range others {
					require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key(fmt.Sprint("p", i))))
				}
				from := len(r.Server.Requests())
				lost := make(chan struct{})
				gate.Store(&lost)
				r.Server.Release(k8s.ConfigMap)
				synctest.Wait()
				close(lost)
				synctest.Wait()
				require.Equal(t, 1, parentReads(r.Server.Requests()[from:])["list"])
				rig.Elapse(time.Minute)
				require.True(t, tc.done(r), tc.reason)
				r.Server.Release()
				rig.Elapse(time.Minute)
				require.True(t, tc.done(r), tc.reason)
				r.Stop()
			})
		})
	}
}

// createSelected creates a parent that the selector of selecting matches.
func createSelected(t *testing.T, r *rig.Rig, name, value string) {
	t.Helper()
	_, err := r.Server.Create(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns", "labels": map[string]any{"mine": "yes"}},
		"spec":     map[string]any{"value": value},
	})
	require.NoError(t, err)
}
