package catalog

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/client-go/discovery"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// customSchema returns the schema of a type that isn't built in, from the OpenAPI
// document of the API server. It returns nil if the API server has none: then the
// lists of the type are compared by their shape.
func customSchema(ctx context.Context, dc *discovery.DiscoveryClient, t resource.Type) *listkeys.Node {
	raw, err := dc.RESTClient().Get().AbsPath("/openapi/v3/apis", t.APIVersion).Do(ctx).Raw()
	if err != nil {
		return nil
	}
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	resolve := func(ref string) map[string]any {
		return doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	}
	for _, schema := range doc.Components.Schemas {
		if describes(schema, t) {
			return listkeys.FromSchema(schema, resolve)
		}
	}
	return nil
}

// describes says whether a schema of an OpenAPI document is that of a type.
func describes(schema map[string]any, t resource.Type) bool {
	gvk := t.GroupVersionKind()
	list, _ := schema["x-kubernetes-group-version-kind"].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["group"] == gvk.Group && m["version"] == gvk.Version && m["kind"] == gvk.Kind {
			return true
		}
	}
	return false
}
