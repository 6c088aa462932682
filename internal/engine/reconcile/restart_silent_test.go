package reconcile_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// TestRestart_RolloutOfSecrets: a restart over Secrets of a rollout that a webhook normalizes.
func TestRestart_RolloutOfSecrets(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.ReadyCondition = true
		cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace, Roll: &config.Roll{}}}
		server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, o map[string]any) error {
			if data, ok := o["data"].(map[string]any); ok && o["kind"] == "Secret" {
				data["value"] = "normal"
			}
			return nil
		}})
		rig.CreateParent(t, server, "p", "1")
		var children []any
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			children = append(children, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "data": map[string]any{"value": "given"}})
		}
		converge(t, server, cfg, wanting(children...))
		before := server.Version()
		changes, err := changesOf(t, server, cfg, wanting(children...), rig.PlanOptions{})
		require.NoError(t, err)
		converge(t, server, cfg, wanting(children...))
		require.Equal(t, before, server.Version(), "a restart is silent: %v", server.Writes())
		require.Empty(t, textOf(changes))
	})
}

// TestRestart_WhileFinalizeFails: a restart while Finalize fails, with related objects to look up.
func TestRestart_WhileFinalizeFails(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.ReadyCondition = true
		cfg.Related = []config.Related{{Type: k8s.Secret, Fields: []string{"spec.value"}}}
		h := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return nil, errors.New("can't finalize")
		}}
		rig.CreateParent(t, server, "p", "1")
		converge(t, server, cfg, h)
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
		converge(t, server, cfg, h)
		before := len(server.Writes())
		converge(t, server, cfg, h)
		require.Empty(t, server.Writes()[before:], "a restart is silent")
	})
}
