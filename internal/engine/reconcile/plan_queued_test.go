package reconcile_test

import (
	"context"
	"strings"
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

// TestPlanOfQueuedRecreation: a plan tries the updates, too, that a rollout makes later. So it says which of them
// recreate a child.
func TestPlanOfQueuedRecreation(t *testing.T) {
	h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		value, _ := req.Parent.Field("spec", "value")
		secret := func(name string, typ any) any {
			return map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name},
				"type": typ, "stringData": map[string]any{"value": value},
			}
		}
		return &handler.SyncResponse{Children: []any{secret("a", "example.com/same"), secret("b", value)}}, nil
	})
	rig.Bubble(t, func(t *testing.T) {
		kind := fakeapi.KindOf(k8s.Secret)
		kind.Plural = "secrets"
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind)
		cfg := rig.Config()
		cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace, RecreateImmutable: true, Roll: &config.Roll{}}}
		r := rig.Start(t, server, cfg, h)
		r.Create("one", "example.com/v1")
		rig.Elapse(time.Minute)
		r.Stop()
		before := server.Get(k8s.Secret, rig.Key("b")).UID()
		_, err := server.Change(sample.ParentType(), rig.Key("one"), func(o map[string]any) {
			o["spec"] = map[string]any{"value": "example.com/v2"}
		})
		require.NoError(t, err)
		changes, err := rig.Plan(server, cfg, h)
		require.NoError(t, err)
		r = rig.Start(t, server, cfg, h)
		rig.Elapse(time.Minute)
		r.Stop()
		require.NotEqual(t, before, server.Get(k8s.Secret, rig.Key("b")).UID(), "it was recreated")
		planned := map[string]string{}
		for _, c := range changes {
			planned[c.Object.Name] = strings.TrimSpace(c.Verb + " " + c.Waits)
		}
		require.Equal(t, map[string]string{"a": "update", "b": "recreate"}, planned)
	})
}

// TestPlanOfGatedTakenName: of a creation behind a gate a plan knows whether the name is free. What becomes of it
// otherwise is decided once the gate is open.
func TestPlanOfGatedTakenName(t *testing.T) {
	for name, taken := range map[string]bool{"Taken": true, "Free": false} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					a := rig.Copied("a", "v")
					return &handler.SyncResponse{Children: []any{a, handler.After(rig.Copied("b", "v"), a)}}, nil
				})
				server := rig.Server()
				if taken {
					foreign := rig.Copied("b", "precious")
					foreign["metadata"] = map[string]any{"name": "b", "namespace": rig.Key("b").Namespace}
					_, err := server.Create(foreign)
					require.NoError(t, err)
				}
				rig.CreateParent(t, server, "one", "v")
				changes, err := rig.Plan(server, rig.Config(), h)
				require.NoError(t, err)
				unsure := map[string]bool{}
				for _, c := range changes {
					unsure[c.Object.Name] = c.Unsure
				}
				require.Equal(t, taken, unsure["b"])
				require.False(t, unsure["a"])
			})
		})
	}
}
