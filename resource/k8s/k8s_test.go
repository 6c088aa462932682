package k8s_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func mapping(t *testing.T, kind resource.Type) resource.Mapping {
	t.Helper()
	for _, m := range k8s.Mappings() {
		if m.Type == kind {
			return m
		}
	}
	t.Fatalf("%s: no mapping", kind)
	return resource.Mapping{}
}

func TestMappings(t *testing.T) {
	cases := map[string]struct {
		reason string
		want   resource.Mapping
	}{
		"Core":          {"a kind of the core group", resource.Mapping{Type: k8s.Pod, Plural: "pods"}},
		"Irregular":     {"its plural is its name", resource.Mapping{Type: k8s.Endpoints, Plural: "endpoints"}},
		"ClusterScoped": {"it has no namespace", resource.Mapping{Type: k8s.Namespace, Plural: "namespaces", ClusterScoped: true}},
		"Group":         {"a group", resource.Mapping{Type: k8s.NetworkPolicy, Plural: "networkpolicies"}},
		"OldVersion": {
			"every version has one",
			resource.Mapping{Type: resource.Type{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"}, Plural: "horizontalpodautoscalers"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, mapping(t, tc.want.Type), tc.reason)
		})
	}
}

func TestMappingsAreUniqueAndFresh(t *testing.T) {
	seen := map[resource.Type]bool{}
	for _, m := range k8s.Mappings() {
		require.False(t, seen[m.Type], m.Type)
		require.NotEmpty(t, m.Plural, m.Type)
		seen[m.Type] = true
	}
	k8s.Mappings()[0] = resource.Mapping{}
	require.NotEmpty(t, k8s.Mappings()[0])
}

func TestVersions(t *testing.T) {
	require.Equal(t, "autoscaling/v2", k8s.HorizontalPodAutoscaler.APIVersion, "the newest")
	require.Equal(t, "events.k8s.io/v1", k8s.Event.APIVersion, "the newer group")
	require.Equal(t, "v1", k8s.EventCore.APIVersion)
}

func Example() {
	fmt.Println(k8s.Deployment)
	// Output: apps/v1/Deployment
}
