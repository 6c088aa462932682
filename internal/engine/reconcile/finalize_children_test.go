package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// TestFinalize_ChildrenGo: Finalize is called again as the children go that it doesn't want, however long it says to wait
// otherwise.
func TestFinalize_ChildrenGo(t *testing.T) {
	for name, teardown := range map[string]config.TeardownPolicy{"GC": config.TeardownGC, "Ordered": config.TeardownOrdered} {
		for holds, finalizers := range map[string][]any{"at once": nil, "later": {"example.com/holds"}} {
			t.Run(name+" "+holds, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					cfg := rig.Config()
					cfg.Teardown = teardown
					r := rig.Start(t, rig.Server(), cfg, handler.Funcs{
						SyncFunc: rig.Copier,
						FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
							if req.Children.Len() > 0 {
								return &handler.FinalizeResponse{Retry: time.Hour, Children: []any{}}, nil
							}
							return &handler.FinalizeResponse{Finalized: true}, nil
						},
					})
					r.Create("one", "v")
					rig.Elapse(time.Minute)
					hold := func(by []any) {
						r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
							o["metadata"].(map[string]any)["finalizers"] = by //nolint:forcetypeassert // it is there
						})
					}
					hold(finalizers)
					rig.Elapse(time.Minute)
					require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
					rig.Elapse(time.Minute)
					if len(finalizers) > 0 {
						require.NotNil(t, r.Get(sample.ParentType(), "one"))
						hold([]any{})
						rig.Elapse(time.Minute)
					}
					left := r.Get(sample.ParentType(), "one")
					r.Stop()
					require.Nil(t, left)
				})
			})
		}
	}
}
