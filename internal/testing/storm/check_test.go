package storm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// What outlives its parent may not be collected with it. What is left in the end of such a type is compared if it belongs to
// somebody.
func TestRetained(t *testing.T) {
	server := newInProcess([]fakeapi.Kind{fakeapi.Custom(site(), "sites"), fakeapi.Custom(resource.Type{APIVersion: "example.com/v1", Kind: "Stranger"}, "strangers"), fakeapi.ConfigMaps(), fakeapi.Secrets()})
	w := &world{operator: config.Operator{Name: "sites", Parent: site(), Children: []config.Child{
		{Type: k8s.ConfigMap, Strategy: config.Replace, Retain: true}, {Type: k8s.Secret, Strategy: config.Replace},
	}}, server: server, namespace: "default", scenario: &Scenario{}, builtIn: func(resource.Type) *listkeys.Node { return nil }}
	w.kinds = []fakeapi.Kind{fakeapi.ConfigMaps(), fakeapi.Secrets()}
	w.scenario.Create(configMap("", "named"))
	owned := func(kind, name, by string) {
		owner, err := server.Create(map[string]any{"apiVersion": "example.com/v1", "kind": by, "metadata": map[string]any{"namespace": "default", "name": name}})
		require.NoError(t, err)
		_, err = server.Create(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": "default", "name": name, "ownerReferences": []any{
			map[string]any{"apiVersion": "example.com/v1", "kind": by, "name": name, "uid": string(owner.UID()), "controller": true},
		}}})
		require.NoError(t, err)
	}
	owned("ConfigMap", "kept", "Site")
	owned("ConfigMap", "lost", "Site")
	owned("Secret", "gone", "Site")
	owned("ConfigMap", "strange", "Stranger")
	for _, name := range []string{"free", "named"} {
		_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": name}})
		require.NoError(t, err)
	}
	require.NoError(t, server.Delete(resource.Type{APIVersion: "example.com/v1", Kind: "Stranger"}, keyIn("default", "strange")))
	for _, name := range []string{"lost", "gone"} {
		require.NoError(t, server.Delete(site(), keyIn("default", name)))
	}
	deleted := server.CollectGarbage()
	require.Len(t, deleted, 3)
	for _, r := range deleted {
		w.collected(r)
	}
	require.Equal(t, []Violation{{"lost", "ConfigMap default/lost has gone with Site lost, though its type has Retain", "ConfigMap default/lost has gone with Site lost, though its type has Retain"}}, w.mu.violations)
	var left []string
	for name := range w.stateOf() {
		left = append(left, name)
	}
	require.ElementsMatch(t, []string{"ConfigMap default/kept", "ConfigMap default/named"}, left)
}
