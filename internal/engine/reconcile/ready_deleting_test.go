package reconcile_test

import (
	"context"
	"errors"
	"fmt"
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

// TestReadyWhileDeleting: a parent that is being deleted and is held by the operator isn't ready, whatever Finalize returns.
func TestReadyWhileDeleting(t *testing.T) {
	finalize := func(resp *handler.FinalizeResponse, err error) func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) { return resp, err }
	}
	for name, tc := range map[string]struct {
		h        handler.Handler
		teardown config.TeardownPolicy
		refuses  bool // a webhook refuses to delete children
		reason   string
	}{
		"Status":    {handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: finalize(&handler.FinalizeResponse{Retry: time.Minute, Status: map[string]any{}}, nil)}, "", false, "Deleting"},
		"NilStatus": {handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: finalize(&handler.FinalizeResponse{Retry: time.Minute}, nil)}, "", false, "Deleting"},
		"Error":     {handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: finalize(nil, errors.New("no"))}, "", false, "HandlerFailed"},
		"Teardown":  {handler.SyncFunc(rig.Copier), config.TeardownOrdered, false, "Deleting"},
		"Refused":   {handler.SyncFunc(rig.Copier), config.TeardownOrdered, true, "WriteRefused"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.ReadyCondition, cfg.Teardown = true, tc.teardown
				r := rig.Start(t, rig.Server(), cfg, tc.h)
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
					o["metadata"].(map[string]any)["finalizers"] = []any{"example.com/holds"}
				})
				r.Server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
					if tc.refuses && q.Verb == "delete" && q.Type == k8s.ConfigMap {
						return no()
					}
					return nil
				}})
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(time.Hour)
				parent := r.Get(sample.ParentType(), "one")
				r.Stop()
				require.NotNil(t, parent)
				conditions, _ := parent.Field("status", "conditions")
				require.Contains(t, fmt.Sprint(conditions), "reason:"+tc.reason+" status:False type:Ready")
			})
		})
	}
}
