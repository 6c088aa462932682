package explain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

var fleetType = resource.Type{APIVersion: "explain.example.com/v1", Kind: "Fleet"}

// newFleet returns a stage whose parent is cluster-scoped, with children in two namespaces and in
// none. What is cluster-scoped is named after the namespace of the test.
func newFleet(t *testing.T) (s *stage, other string) {
	t.Helper()
	cfg := config.Operator{
		Parent: fleetType, Related: []config.Related{{Type: k8s.Namespace, Fields: []string{"spec.namespaces[*]"}}},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.ClusterRole, Strategy: config.Replace}},
	}
	s = newStage(t, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		children := []any{
			named("rbac.authorization.k8s.io/v1", "ClusterRole", req.Parent.Name()+"-seen", object{"rules": []any{}}),
			named("rbac.authorization.k8s.io/v1", "ClusterRole", req.Parent.Name()+"-gone", object{"rules": []any{}}),
		}
		namespaces, _ := req.Parent.Field("spec", "namespaces")
		for _, namespace := range namespaces.([]any) {
			child := configMap("ship", text(req))
			child["metadata"].(object)["namespace"] = namespace
			children = append(children, child)
		}
		return &handler.SyncResponse{Children: children}, nil
	}))
	other, s.name = s.Namespace+"-two", s.Namespace+"-fleet"
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.Create(object{"apiVersion": fleetType.APIVersion, "kind": "Fleet", "metadata": object{"name": s.name}, "spec": object{
		"text": "hello", "namespaces": []any{s.Namespace, other},
	}})
	s.settle()
	return s, other
}

// The children of a cluster-scoped parent are told by their namespaces, and those without one.
func TestClusterScoped(t *testing.T) {
	s, other := newFleet(t)
	s.golden("cluster-scoped.txt", "settled")
	s.stop()
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	_, err := s.client.Resource(configMaps).Namespace(other).Patch(t.Context(), "ship", types.MergePatchType, []byte(`{"data":{"text":"mine"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	require.NoError(t, err)
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	require.NoError(t, s.client.Resource(roles).Delete(t.Context(), s.name+"-gone", metav1.DeleteOptions{}))
	s.golden("cluster-scoped-edited.txt", "missing, to be created")
	s.golden("cluster-scoped-edited.json", `"missing"`, "-o", "json")
}

// Who names a parent with a namespace that it can't have, or without the one that it must have, is
// told how it is written.
func TestScopeOfTheName(t *testing.T) {
	fleet, _ := newFleet(t)
	site := newStage(t, config.Operator{}, always(func(*handler.SyncRequest) []any { return nil }))
	site.begin(object{})
	for name, tc := range map[string]struct {
		reason string
		stage  *stage
		args   []string // the first is the parent
		want   string
	}{
		"NamespaceOfNone": {"it is cluster-scoped", fleet, []string{"some/" + fleet.name}, "explain: Fleet some/NAMESPACE-fleet: has no namespace, since Fleet is cluster-scoped; write NAMESPACE-fleet alone\n"},
		"FlagOfNone":      {"the same by the flag", fleet, []string{fleet.name, "--namespace=some"}, "explain: Fleet some/NAMESPACE-fleet: has no namespace, since Fleet is cluster-scoped; write NAMESPACE-fleet alone\n"},
		"NoNamespace":     {"it has one", site, []string{"blog"}, "explain: Site blog: lacks a namespace; write NAMESPACE/blog; did you mean NAMESPACE/blog?\n"},
		"NobodyNear":      {"there is nothing to suggest", site, []string{"something-else"}, "explain: Site something-else: lacks a namespace; write NAMESPACE/something-else\n"},
		"Flag":            {"it says the namespace", site, []string{"blgo", "--namespace=" + site.Namespace}, "explain: Site NAMESPACE/blgo: not found; did you mean NAMESPACE/blog?\n"},
		"NoFleet":         {"a typo", fleet, []string{fleet.name + "t"}, "explain: Fleet NAMESPACE-fleett: not found; did you mean NAMESPACE-fleet?\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.stage.normal(tc.stage.explainParent(tc.args[0], tc.args[1:]...)), tc.reason)
		})
	}
}
