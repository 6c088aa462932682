package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

const refPrefix = "#/components/schemas/"

// writeSchemas writes the table of package listkeys.
func writeSchemas(server *rest.Config, path string) error {
	client, all, err := discover(server)
	if err != nil {
		return err
	}
	schemas, err := fetchSchemas(client)
	if err != nil {
		return err
	}
	builder := listkeys.Builder{Resolve: func(ref string) map[string]any {
		return schemas[strings.TrimPrefix(ref, refPrefix)]
	}}
	named := map[string]*listkeys.Node{}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		named[strings.TrimPrefix(name, "io.k8s.")] = builder.Ref(refPrefix + name)
	}
	kinds := map[resource.Type]string{}
	for _, s := range all {
		name := rootOf(schemas, s.Type.GroupVersionKind())
		if name == "" {
			return fmt.Errorf("%s: no schema", s.Type)
		}
		kinds[s.Type] = strings.TrimPrefix(name, "io.k8s.")
		noteZeros(named[kinds[s.Type]], s.Type)
	}
	table, err := listkeys.EncodeTable(kinds, named)
	if err != nil {
		return err
	}
	return os.WriteFile(path, table, 0o644)
}

// fetchSchemas returns the schemas of all group versions by name.
func fetchSchemas(client *discovery.DiscoveryClient) (map[string]map[string]any, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	schemas := map[string]map[string]any{}
	for path, gv := range paths {
		data, err := gv.Schema("application/json")
		if err != nil {
			return nil, fmt.Errorf("openapi/v3/%s: %w", path, err)
		}
		var document struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(data, &document); err != nil {
			return nil, fmt.Errorf("openapi/v3/%s: %w", path, err)
		}
		maps.Copy(schemas, document.Components.Schemas)
	}
	return schemas, nil
}

// rootOf returns the name of the schema of a kind.
func rootOf(schemas map[string]map[string]any, gvk schema.GroupVersionKind) string {
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		list, _ := schemas[name]["x-kubernetes-group-version-kind"].([]any)
		for _, item := range list {
			if m, ok := item.(map[string]any); ok &&
				m["group"] == gvk.Group && m["version"] == gvk.Version && m["kind"] == gvk.Kind {
				return name
			}
		}
	}
	return ""
}
