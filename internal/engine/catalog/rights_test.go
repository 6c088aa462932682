package catalog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// texts returns rights as "verb resource name namespace", with "!" after those that are
// required, and the selector.
func texts(rights []Right) []string {
	var out []string
	for _, r := range rights {
		text := strings.Join(strings.Fields(strings.Join([]string{r.Verb, r.Resource, r.Name, r.Namespace}, " ")), " ")
		if r.Required {
			text += "!"
		}
		if r.Selector != "" {
			text += " of " + r.Selector
		}
		out = append(out, text)
	}
	return out
}

// TestRights: every verb of every rule is a right in each of the namespaces. What is
// listed and watched is required.
func TestRights(t *testing.T) {
	const children = " of roperator.com/operator=op,roperator.com/parent-uid"
	for name, tc := range map[string]struct {
		reason        string
		clusterScoped bool
		change        func(*config.Operator)
		noStatus      bool
		want          []string
	}{
		"Everywhere": {
			"no namespace is named", false, func(cfg *config.Operator) { cfg.ParentSelector = "mine" }, false,
			[]string{
				"get parents", "list parents! of mine", "watch parents! of mine", "patch parents", "update parents/status", "update parents/finalizers",
				"get configmaps", "list configmaps!" + children, "watch configmaps!" + children, "create configmaps", "update configmaps", "patch configmaps", "delete configmaps",
				"create events", "patch events",
			},
		},
		"Namespaces": {
			"Roles are enough", false, func(cfg *config.Operator) {
				cfg.Namespaces = []string{"a", "b"}
				cfg.Children = nil
			}, false,
			[]string{
				"get parents a", "list parents a!", "watch parents a!", "patch parents a", "get parents b", "list parents b!", "watch parents b!", "patch parents b",
				"update parents/status a", "update parents/status b", "create events a", "patch events a", "create events b", "patch events b",
			},
		},
		"Cluster-scoped": {
			"Events about them are in a namespace", true, func(cfg *config.Operator) { cfg.Children = nil }, false,
			[]string{"get parents", "list parents!", "watch parents!", "patch parents", "update parents/status", "create events default", "patch events default"},
		},
		"Without status": {
			"none can be written", false, func(cfg *config.Operator) { cfg.Children = nil }, true,
			[]string{"get parents", "list parents!", "watch parents!", "patch parents", "create events", "patch events"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Operator{
				Name: "op", Parent: sample.ParentType(), Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
				Mappings: []resource.Mapping{{Type: sample.ParentType(), Plural: "parents", ClusterScoped: tc.clusterScoped}},
			}
			tc.change(&cfg)
			cfg = defaults.Apply(cfg)
			types, err := Offline(cfg)
			require.NoError(t, err)
			types.Parent.HasStatus = !tc.noStatus
			rights := NewSettings(cfg, handler.SyncFunc(nil), types).Rights()
			require.Equal(t, tc.want, texts(rights), tc.reason)
			for _, r := range rights {
				require.Equal(t, !tc.clusterScoped || r.Resource == "events", r.Namespaced, r.Resource)
				require.Equal(t, r.Resource == "parents/finalizers", r.Only != "", r.Resource)
			}
		})
	}
	require.Equal(t, []string{"create leases ns", "get leases op ns!", "update leases op ns!"}, texts(LeaseRights("ns", "op")), "a Lease that exists needn't be created")
}
