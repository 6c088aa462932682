package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// TestConflicts_Deletes: a webhook lets one child go every few seconds. The operator has made them all, so that their deletes
// are no fight with another client. (S180)
func TestConflicts_Deletes(t *testing.T) {
	const children = 10
	for name, tc := range map[string]struct {
		reason  string
		restart bool
	}{
		"Tried before":    {reason: "the first deletes are rejected"},
		"After a restart": {reason: "this process has made none of them", restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Orders(t, func(t *testing.T, start rig.Starter) {
				server := rig.Server()
				var allowed atomic.Int64
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if req.Type == k8s.ConfigMap && req.Verb == "delete" && allowed.Add(-1) < 0 {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, req.Key.Name, errors.New("not yet"))
					}
					return nil
				}})
				var none atomic.Bool
				h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					resp := &handler.SyncResponse{}
					for i := 0; i < children && !none.Load(); i++ {
						resp.Children = append(resp.Children, rig.Copied(fmt.Sprint("c-", i), "v"))
					}
					return resp, nil
				})
				r := start(server, rig.Config(), h)
				r.Create("one", "v")
				rig.Elapse(2 * time.Minute)
				require.Len(t, server.List(k8s.ConfigMap), children)
				none.Store(true)
				if tc.restart {
					r.Stop()
					r = start(server, rig.Config(), h)
				} else {
					r.SetSpec("one", "none")
				}
				rig.Elapse(time.Minute)
				require.Len(t, server.List(k8s.ConfigMap), children)
				for i := range children {
					allowed.Store(1)
					r.SetSpec("one", fmt.Sprint("none", i)) // retries at once
					rig.Elapse(3 * time.Second)
				}
				require.Empty(t, server.List(k8s.ConfigMap))
				require.Empty(t, slicesOf(recorded(r), "ConflictLoop"), tc.reason)
				r.Stop()
			})
		})
	}
}
