package manager_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// A write that fails at first is no conflict: a user edits a parent every eight seconds, each edit has
// another ConfigMap take the place of the last one, and each ConfigMap meets one failure.
func TestFailuresAreNoConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("once"))
	for name, tc := range map[string]struct {
		verb string
		err  error
	}{
		"DeleteConflicts": {"delete", conflict},
		"DeleteFails":     {"delete", apierrors.NewInternalError(errors.New("once"))},
		"CreateFails":     {"create", apierrors.NewInternalError(errors.New("once"))},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				failed := map[string]bool{}
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb != tc.verb || r.Type != k8s.ConfigMap || failed[r.Key.Name] {
						return nil
					}
					failed[r.Key.Name] = true
					return tc.err
				}})
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					value, _ := req.Parent.Field("spec", "value")
					return &handler.SyncResponse{Children: []any{rig.Copied(fmt.Sprint("of-", value), value)}}, nil
				}))
				r.Create("one", "0")
				for n := range 8 {
					rig.Elapse(8 * time.Second)
					r.SetSpec("one", fmt.Sprint(n+1))
				}
				rig.Elapse(8 * time.Second)
				require.NotContains(t, r.Logs.String(), "conflict loop")
				for _, row := range r.Manager.Engine().Survey() {
					require.NotEqual(t, explain.Throttled, row.State)
				}
				require.Len(t, server.List(k8s.ConfigMap), 1)
				r.Stop()
			})
		})
	}
}
