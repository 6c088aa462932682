package apischema_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/internal/gotype"
)

// givenUp are alpha fields of the server that the Go types, which are of a newer version, have
// no more. A program that is built with these types is told that they are unknown.
func givenUp() []string {
	return []string{
		"io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus.resources", "io.k8s.api.resource.v1.Device.nodeAllocatableResourceMappings",
		"io.k8s.api.resource.v1beta1.BasicDevice.nodeAllocatableResourceMappings", "io.k8s.api.resource.v1beta2.Device.nodeAllocatableResourceMappings",
	}
}

// hasNoUnknownFields: the Go types have all fields that the server has, so that none is
// unknown. That the server may lack some is no harm: it says so itself.
func (s *server) hasNoUnknownFields() {
	t := s.t
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	require.NoError(t, err)
	paths, err := client.OpenAPIV3().Paths()
	require.NoError(t, err)
	c := fieldComparison{schemas: map[string]map[string]any{}, seen: map[string]bool{}}
	for path, gv := range paths {
		text, err := gv.Schema("application/json")
		require.NoError(t, err, path)
		var document struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		require.NoError(t, json.Unmarshal(text, &document), path)
		maps.Copy(c.schemas, document.Components.Schemas)
	}
	for typ := range s.served {
		object, err := scheme.Scheme.New(typ.GroupVersionKind())
		if err != nil || !s.checker.Knows(typ) {
			continue
		}
		named, ok := object.(interface{ OpenAPIModelName() string })
		require.True(t, ok, "%s: no name of a schema", typ)
		require.Contains(t, c.schemas, named.OpenAPIModelName(), "%s", typ)
		c.model(named.OpenAPIModelName(), reflect.TypeOf(object).Elem(), typ.String())
	}
	require.Empty(t, c.missing)
	require.Greater(t, len(c.seen), 400, "schemas compared")
}

// A fieldComparison compares schemas with Go types.
type fieldComparison struct {
	schemas map[string]map[string]any
	seen    map[string]bool
	missing []string // fields that a Go type lacks
}

func (c *fieldComparison) model(name string, typ reflect.Type, at string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if c.seen[name] || gotype.DecodesItself(typ) || typ.Kind() != reflect.Struct {
		return
	}
	c.seen[name] = true
	fields := gotype.Fields(typ)
	properties, _ := c.schemas[name]["properties"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		own, ok := fields[field]
		if !ok {
			if !slices.Contains(givenUp(), name+"."+field) {
				c.missing = append(c.missing, at+": "+name+"."+field)
			}
			continue
		}
		c.property(properties[field].(map[string]any), own, at+"."+field)
	}
}

func (c *fieldComparison) property(schema map[string]any, typ reflect.Type, at string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if ref, ok := schema["$ref"].(string); ok {
		c.model(strings.TrimPrefix(ref, "#/components/schemas/"), typ, at)
	}
	if all, ok := schema["allOf"].([]any); ok && len(all) > 0 {
		c.property(all[0].(map[string]any), typ, at)
	}
	for _, below := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[below].(map[string]any); ok && (typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map) {
			c.property(inner, typ.Elem(), at)
		}
	}
}
