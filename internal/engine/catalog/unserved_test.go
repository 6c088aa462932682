package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
)

func TestSimilarTo(t *testing.T) {
	served := []resource.Type{
		{APIVersion: "v1", Kind: "Event"},
		{APIVersion: "apps/v1", Kind: "Deployment"},
		{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		{APIVersion: "example.com/v1", Kind: "Thing"},
		{APIVersion: "example.com/v1beta2", Kind: "Thing"},
		{APIVersion: "example.com/v1", Kind: "Deployment"},
	}
	for name, test := range map[string]struct {
		reason string
		of     resource.Type
		says   string
	}{
		"version": {
			"the kind is served in another version", resource.Type{APIVersion: "apps/v1beta1", Kind: "Deployment"},
			"apps/v1beta1/Deployment: the API server doesn't serve this type, but serves apps/v1/Deployment; is that meant?",
		},
		"versions of a custom resource": {
			"all versions are named, and what else can be done", resource.Type{APIVersion: "example.com/v1alpha1", Kind: "Thing"},
			"example.com/v1alpha1/Thing: the API server doesn't serve this type, but serves example.com/v1/Thing, example.com/v1beta2/Thing; " +
				"configure that version, or have the CustomResourceDefinition serve version v1alpha1",
		},
		"case": {
			"kinds are told apart by case", resource.Type{APIVersion: "example.com/v1", Kind: "thing"},
			"example.com/v1/thing: the API server doesn't serve this type, but serves example.com/v1/Thing, example.com/v1beta2/Thing; is that meant?",
		},
		"group": {
			"the kind is of another group", resource.Type{APIVersion: "v1", Kind: "Deployment"},
			"v1/Deployment: the API server doesn't serve this type, but serves apps/v1/Deployment, example.com/v1/Deployment; is that meant?",
		},
		"custom resource": {
			"there is nothing like it", resource.Type{APIVersion: "example.com/v1", Kind: "Other"},
			"example.com/v1/Other: the API server doesn't serve this type; install the CustomResourceDefinition of kind Other in group example.com (kubectl apply -f …) and see that it serves version v1",
		},
		"custom resource whose name others have": {
			"another group's kind is hardly meant", resource.Type{APIVersion: "serving.example.com/v1", Kind: "Deployment"},
			"serving.example.com/v1/Deployment: the API server doesn't serve this type; install the CustomResourceDefinition of kind Deployment in group serving.example.com (kubectl apply -f …) and see that it serves version v1",
		},
		"group of Kubernetes": {
			"the kind has moved", resource.Type{APIVersion: "extensions.k8s.io/v1", Kind: "Deployment"},
			"extensions.k8s.io/v1/Deployment: the API server doesn't serve this type, but serves apps/v1/Deployment, example.com/v1/Deployment; is that meant?",
		},
		"built in": {
			"there is nothing like it", resource.Type{APIVersion: "apps/v1", Kind: "Deploy"},
			"apps/v1/Deploy: the API server doesn't serve this type; check apiVersion and kind, or the version of the cluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, NotServed(test.of, SimilarTo(test.of, served)...), test.says, test.reason)
		})
	}
	require.Empty(t, similarOfGroup(resource.Type{APIVersion: "serving.example.com/v1", Kind: "Deployment"}, served), "it may come yet")
	require.Equal(t, served[1:2], similarOfGroup(resource.Type{APIVersion: "apps/v2", Kind: "Deployment"}, served))
	require.Empty(t, SimilarTo(served[1], served[1:2]), "a type isn't similar to itself")
}

// TestPresumed: how a type was served is known better than how it may be.
func TestPresumed(t *testing.T) {
	odd := resource.Type{APIVersion: "example.com/v1", Kind: "Chassis"}
	served := &Kind{Type: odd, GVR: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "chassis"}}
	settings := func(mappings ...resource.Mapping) *Settings {
		return &Settings{Config: config.Operator{Mappings: mappings}}
	}
	for name, tc := range map[string]struct {
		reason     string
		of         *Kind
		mappings   []resource.Mapping
		plural     string
		namespaced bool
	}{
		"never served": {"the rule for names", &Kind{Type: odd, Unserved: true}, nil, "chassises", true},
		"mapped":       {"the user knows", &Kind{Type: odd, Unserved: true}, []resource.Mapping{{Type: odd, Plural: "frames", ClusterScoped: true}}, "frames", false},
		"served once":  {"as it was", served.Gone(nil), nil, "chassis", false},
		"gone twice":   {"as it was before both", served.Gone(nil).Gone(nil), []resource.Mapping{{Type: odd, Plural: "frames"}}, "chassis", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := settings(tc.mappings...).Presumed(tc.of)
			require.Equal(t, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: tc.plural}, k.GVR, tc.reason)
			require.Equal(t, tc.namespaced, k.Namespaced, tc.reason)
			require.Empty(t, tc.of.GVR, "what is given stays as it is")
		})
	}
}
