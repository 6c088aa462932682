package conformance

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/resource"
)

// dryCreate returns what the API server would make of an object of this type
// if it were created now.
func (s *stage) dryCreate(client dynamic.Interface, t resource.Type, content map[string]any) *unstructured.Unstructured {
	s.t.Helper()
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(t.GroupVersionKind())
	u.SetName("fresh")
	of := plural(t)
	fresh, err := client.Resource(of).Namespace(s.Namespace).Create(s.t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(s.t, err, "%s", t)
	return fresh
}

// alike returns an object without what differs between two of the same
// content: metadata but for annotations of users, the status, the values of what
// is allocated or generated, empty objects, and the order of lists by name.
func alike(object map[string]any) map[string]any {
	out, _ := essential(object, "").(map[string]any)
	metadata, _ := out["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	out["metadata"] = map[string]any{"version": annotations["example.com/version"]}
	delete(out, "status")
	spec, ok := out["spec"].(map[string]any)
	if !ok {
		return out
	}
	for _, name := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
		if spec[name] != nil {
			spec[name] = "allocated"
		}
	}
	ports, _ := spec["ports"].([]any)
	for i, p := range ports {
		if p := p.(map[string]any); p["nodePort"] != nil {
			p["nodePort"] = "allocated"
		}
		ports[i] = p
	}
	if object["kind"] == "Job" { // it has a label in common with its Pods
		delete(spec, "selector")
		spec["template"] = spec["template"].(map[string]any)["spec"]
	}
	return out
}

// essential returns a copy without empty objects and lists, and with the order
// that lists by name have no meaning of.
func essential(value any, field string) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, below := range v {
			if below = essential(below, key); below != nil {
				out[key] = below
			}
		}
		if len(out) > 0 || field == "emptyDir" {
			return out
		}
		return nil
	case []any:
		var out []any
		for _, item := range v {
			if item = essential(item, ""); item == nil {
				item = map[string]any{}
			}
			out = append(out, item)
		}
		if out == nil {
			return nil
		}
		if field != "env" && field != "initContainers" {
			slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
		}
		return out
	}
	return value
}

func nameOf(item any) string {
	object, _ := item.(map[string]any)
	name, _ := object["name"].(string)
	return name
}
