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

// TestPlanOfClaimedNormalizedChild: a plan of a child that is taken over, or whose owner reference is mended, and of which
// the API server has normalized a value. A plan panicked over it.
func TestPlanOfClaimedNormalizedChild(t *testing.T) {
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "one"},
		"spec": map[string]any{"containers": []any{map[string]any{
			"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}},
		}}},
	}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{pod}}, nil
	})
	for name, tc := range map[string]struct {
		child config.Child
		then  func(t *testing.T, server *fakeapi.Server)
	}{
		"OwnerReferenceMended": {config.Child{Type: k8s.Pod, Strategy: config.Replace}, func(t *testing.T, server *fakeapi.Server) {
			_, err := server.Change(k8s.Pod, rig.Key("one"), func(o map[string]any) {
				refs := o["metadata"].(map[string]any)["ownerReferences"].([]any)
				delete(refs[0].(map[string]any), "blockOwnerDeletion")
			})
			require.NoError(t, err)
		}},
		"RetainedAndAdopted": {config.Child{Type: k8s.Pod, Strategy: config.Recreate, Retain: true, Adopt: true}, func(t *testing.T, server *fakeapi.Server) {
			rig.CreateParent(t, server, "one", "v")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				kind := fakeapi.KindOf(k8s.Pod)
				kind.Plural = "pods"
				server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind)
				cfg := rig.Config()
				cfg.Children = []config.Child{tc.child}
				r := rig.Start(t, server, cfg, h)
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				require.NotNil(t, r.Get(k8s.Pod, "one"))
				if tc.child.Retain {
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
					rig.Elapse(time.Minute)
				}
				r.Stop()
				tc.then(t, server)
				changes, err := rig.Plan(server, cfg, h)
				require.NoError(t, err)
				verbs := map[string]string{}
				for _, c := range changes {
					verbs[c.Type.Kind] = c.Verb
				}
				require.Equal(t, "update", verbs["Pod"])
			})
		})
	}
}
