package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// A name is taken when the child is to be created, and free again when it is
// looked at who has it: that is no error, and the next pass creates it.
func TestOwnership_NameThatIsFreeWhenLookedAt(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		verb   string // of the request before which the other object goes
	}{
		"Looked": {"it has gone before it is read", "get"},
		"Taken":  {"it has gone before it is adopted", "patch"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				_, err := server.Create(map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one", "namespace": "ns"},
				})
				require.NoError(t, err)
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == tc.verb && r.Type == k8s.ConfigMap {
						_ = server.Delete(k8s.ConfigMap, rig.Key("one")) // the first time
					}
					return nil
				}})
				cfg := rig.Config()
				cfg.Children[0] = config.Child{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: true}
				r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
				r.Create("one", "v1")
				rig.Elapse(time.Minute)
				require.Empty(t, r.Errors("one"), tc.reason)
				require.NotContains(t, r.Logs.String(), "sync failed")
				value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
				require.Equal(t, "v1", value)
				r.Stop()
			})
		})
	}
}
