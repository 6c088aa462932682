package storm_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// TestStormOfBuiltInObjects holds that children as people write them converge and fall silent by
// each strategy, with an API server that has defaults and immutable fields, and under faults.
func TestStormOfBuiltInObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		child  config.Child
		frozen bool // fields change that are immutable
	}{
		"Replace":          {config.Child{Strategy: config.Replace}, false},
		"Apply":            {config.Child{Strategy: config.Apply}, false},
		"Recreate":         {config.Child{Strategy: config.Recreate}, true},
		"OnDelete":         {config.Child{Strategy: config.OnDelete}, true},
		"ReplaceImmutable": {config.Child{Strategy: config.Replace, RecreateImmutable: true}, true},
		"ApplyImmutable":   {config.Child{Strategy: config.Apply, RecreateImmutable: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			children := namespaced(t)
			cfg := config.Operator{Name: "simulated", Parent: builtInParent()}
			seen := map[resource.Type]bool{}
			for _, child := range children {
				of := tc.child
				of.Type = resource.Type{APIVersion: child.GetAPIVersion(), Kind: child.GetKind()}
				of.RecreateImmutable = of.RecreateImmutable && of.Type != k8s.PersistentVolumeClaim // which holds data
				if !seen[of.Type] {
					cfg.Children = append(cfg.Children, of)
				}
				seen[of.Type] = true
			}
			h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				held, _ := req.Parent.Field("spec", "value")
				value, _ := held.(string)
				resp := &handler.SyncResponse{Status: map[string]any{"value": value}}
				for _, child := range children {
					child = child.DeepCopy()
					child.SetLabels(map[string]string{"value": value})
					if tc.frozen && value == "v2" {
						if err := changeFrozen(child); err != nil {
							return nil, err
						}
					}
					resp.Children = append(resp.Children, child)
				}
				return resp, nil
			})
			testkit.Storm(t, cfg, h, testkit.Faults{Seeds: int(budget.Runs(12))}, func(s *testkit.Scenario) {
				parent := map[string]any{
					"apiVersion": builtInParent().APIVersion, "kind": builtInParent().Kind,
					"metadata": map[string]any{"name": "p", "namespace": "default"}, "spec": map[string]any{"value": "v1"},
				}
				s.Create(parent)
				s.Change(parent, func(o map[string]any) { o["spec"] = map[string]any{"value": "v2"} })
				s.Delete(parent)
			})
		})
	}
}

func builtInParent() resource.Type {
	return resource.Type{APIVersion: "sim.example.com/v1", Kind: "Parent"}
}

// namespaced returns the namespaced objects among those that fakeapi is compared with a real server by.
func namespaced(t *testing.T) (out []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("../fakeapi/testdata/builtin.yaml")
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
		switch object.GetKind() {
		case "PersistentVolume", "PriorityClass", "StorageClass", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			continue // of the cluster
		}
		out = append(out, object)
	}
	return out
}

// changeFrozen changes a field that can't be changed, where an object has one.
func changeFrozen(object *unstructured.Unstructured) error {
	var path []string
	var value any
	switch object.GetKind() {
	case "Deployment", "DaemonSet", "ReplicaSet":
		path, value = []string{"spec", "selector", "matchExpressions"}, []any{map[string]any{"key": "c", "operator": "DoesNotExist"}}
	case "StatefulSet":
		path, value = []string{"spec", "serviceName"}, "other"
	case "Job":
		path, value = []string{"spec", "template", "spec", "activeDeadlineSeconds"}, int64(7)
	case "RoleBinding":
		path, value = []string{"roleRef", "name"}, "other"
	case "ConfigMap":
		path, value = []string{"data", "a"}, "other"
	case "Secret":
		path, value = []string{"type"}, "example.com/other"
	default:
		return nil
	}
	return unstructured.SetNestedField(object.Object, value, path...)
}
