package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestOfflineMapping(t *testing.T) {
	ox := resource.Type{APIVersion: "example.com/v1", Kind: "Ox"}
	named := config.Operator{Mappings: []resource.Mapping{{Type: ox, Plural: "oxen", ClusterScoped: true}}}
	for name, tc := range map[string]struct {
		reason  string
		cfg     config.Operator
		of      resource.Type
		want    resource.Mapping
		guessed bool
	}{
		"BuiltIn":       {"its plural can't be guessed", config.Operator{}, k8s.Ingress, resource.Mapping{Type: k8s.Ingress, Plural: "ingresses"}, false},
		"ClusterScoped": {"the scope is known too", config.Operator{}, k8s.Namespace, resource.Mapping{Type: k8s.Namespace, Plural: "namespaces", ClusterScoped: true}, false},
		"Configured":    {"the user says it", named, ox, named.Mappings[0], false},
		"Guessed":       {"as apimachinery does", config.Operator{}, ox, resource.Mapping{Type: ox, Plural: "oxs"}, true},
		"OtherGroup": {
			"a kind of that name in another group is none of ours", config.Operator{},
			resource.Type{APIVersion: "example.com/v1", Kind: "Deployment"},
			resource.Mapping{Type: resource.Type{APIVersion: "example.com/v1", Kind: "Deployment"}, Plural: "deployments"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, guessed := MappingOf(tc.cfg, tc.of)
			require.Equal(t, tc.want, m, tc.reason)
			require.Equal(t, tc.guessed, guessed, tc.reason)
		})
	}
}
