package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// definition is a CustomResourceDefinition of a kind in the group late.example.com.
func definition(kind, plural, scope string) map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".late.example.com"},
		"spec": map[string]any{
			"group": "late.example.com", "scope": scope,
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": plural + "-one"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				}},
			}},
		},
	}
}

func late(kind, name string) map[string]any {
	return map[string]any{"apiVersion": "late.example.com/v1", "kind": kind, "metadata": map[string]any{"name": name}}
}

func TestKitFindsKindsThatAreDefinedLate(t *testing.T) {
	t.Parallel()
	kind := resource.Type{APIVersion: "late.example.com/v1", Kind: "Early"}
	cfg := widgets("kit-late")
	cfg.Children = append(cfg.Children, config.Child{Type: kind, Strategy: config.Replace, Optional: true})
	kit := New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{late("Early", req.Parent.Name())}}, nil
	}))
	kit.Create(widget("one", nil))
	require.NoError(t, kit.Settle(patience))
	require.Contains(t, kit.Waits(widget("one", nil))[0], "Early")

	// Each at once after the other.
	for _, d := range []map[string]any{definition("Early", "earlyones", "Namespaced"), definition("Later", "laters", "Cluster")} {
		t.Cleanup(func() {
			if kit.Get(d) != nil {
				kit.Delete(d)
				kit.EventuallyGone(d, patience)
			}
		})
		kit.Create(d)
	}
	require.Nil(t, kit.Get(late("Later", "two")))
	kit.Create(late("Later", "two"))
	require.Empty(t, kit.Get(late("Later", "two")).Namespace())
	kit.Create(late("Early", "two"))
	kit.Eventually(late("Early", "one"), patience)
	require.NoError(t, kit.Settle(patience))

	// One that comes back as another.
	gone := definition("Later", "laters", "Cluster")
	kit.Delete(late("Later", "two"))
	kit.Delete(gone)
	kit.EventuallyGone(gone, patience)
	back := definition("Later", "lateness", "Namespaced")
	kit.Create(back)
	t.Cleanup(func() { kit.Delete(back) })
	kit.Create(late("Later", "three"))
	require.Equal(t, kit.Namespace, kit.Get(late("Later", "three")).Namespace())
}
