package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// TestPlan_Conflict: a webhook answers a creation, or a patch that takes a child back, with 409 for reasons of its own. That
// is an error of the plan where it is one of the operator, and no reason to plan without end.
func TestPlan_Conflict(t *testing.T) {
	for name, tc := range map[string]struct {
		verb  string
		spoil func(o map[string]any)
	}{
		"Create":        {"create", nil},
		"CreateOfOwner": {"create", func(o map[string]any) { delete(metaOf(o), "ownerReferences") }},
		"CreateOfLabel": {"create", func(o map[string]any) { delete(metaOf(o)["labels"].(map[string]any), "roperator.com/parent-uid") }},
		"PatchOfOwner":  {"patch", func(o map[string]any) { delete(metaOf(o), "ownerReferences") }},
		"PatchOfLabel":  {"patch", func(o map[string]any) { delete(metaOf(o)["labels"].(map[string]any), "roperator.com/parent-uid") }},
		"PatchOfLabels": {"patch", func(o map[string]any) { delete(metaOf(o), "labels") }},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				rig.CreateParent(t, server, "p", "1")
				h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{rig.Copied("a", "1")}}, nil
				})
				if tc.spoil != nil {
					converge(t, server, cfg, h)
					_, err := server.Change(k8s.ConfigMap, rig.Key("a"), tc.spoil)
					require.NoError(t, err)
				}
				server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, _ map[string]any) error {
					if r.Verb == tc.verb && r.Type == k8s.ConfigMap {
						return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("a webhook says so"))
					}
					return nil
				}})
				lines, err := planOf(t, server, cfg, h)
				r := rig.Start(t, server, cfg, h)
				rig.Elapse(time.Minute)
				errs := r.Errors("p")
				r.Stop()
				require.Equal(t, len(errs) > 0, err != nil, "plan: %v, %v; live: %v", lines, err, errs)
				if err != nil {
					require.NotContains(t, err.Error(), "keep changing")
				}
			})
		})
	}
}
