package rig

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Server returns an API server that serves the parents of Config, ConfigMaps,
// Secrets and Namespaces, and has none of them.
func Server() *fakeapi.Server {
	return fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces())
}

// Config returns the configuration of an operator "op" whose parents have
// ConfigMaps.
func Config() config.Operator {
	return config.Operator{
		Name: "op", Parent: sample.ParentType(),
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
}

// CreateParent creates a parent whose spec.value is value on a server, whether an
// operator runs or not.
func CreateParent(t *testing.T, server *fakeapi.Server, name, value string, finalizers ...any) *resource.Resource {
	t.Helper()
	res, err := server.Create(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns", "finalizers": finalizers},
		"spec":     map[string]any{"value": value},
	})
	require.NoError(t, err)
	return res
}

// Key returns the key of an object with this name.
func Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}
