package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestDoubtRivals: of what another parent wants, too, nobody knows who gets it, nor what a parent without it leaves.
func TestDoubtRivals(t *testing.T) {
	change := func(parent, verb string, of resource.Type, namespace, name string) Change {
		return Change{Parent: types.NamespacedName{Name: parent}, Verb: verb, Type: of, Object: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	role := resource.Type{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}
	for name, tc := range map[string]struct {
		reason  string
		changes []Change
		unsure  []string
	}{
		"Namespace": {"what is to be in it, and all deletions, which a refused child without a namespace holds back", []Change{
			change("p", "create", k8s.Namespace, "", "shared"),
			change("p", "create", k8s.ConfigMap, "shared", "a"),
			change("p", "update", k8s.ConfigMap, "other", "b"),
			change("p", "delete", k8s.ConfigMap, "other", "c"),
			change("q", "create", k8s.Namespace, "", "shared"),
			change("q", "update", k8s.ConfigMap, "other", "d"),
			change("r", "delete", k8s.ConfigMap, "other", "e"),
		}, []string{"p shared", "p a", "p c", "q shared"}},
		"Namespaced": {"deletions in its namespace, and of what has none", []Change{
			change("p", "create", k8s.ConfigMap, "one", "shared"),
			change("p", "delete", k8s.ConfigMap, "one", "a"),
			change("p", "delete", k8s.ConfigMap, "two", "b"),
			change("p", "delete", role, "", "c"),
			change("p", "create", role, "", "d"),
			change("q", "update", k8s.ConfigMap, "one", "shared"),
		}, []string{"p shared", "p a", "p c", "q shared"}},
		"None": {"a delete is no claim, nor are two changes for one parent", []Change{
			change("p", "delete", k8s.ConfigMap, "one", "shared"),
			change("q", "create", k8s.ConfigMap, "one", "shared"),
			change("q", "update", k8s.ConfigMap, "one", "shared"),
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			DoubtRivals(tc.changes)
			var unsure []string
			for _, c := range tc.changes {
				if c.Unsure {
					unsure = append(unsure, c.Parent.Name+" "+c.Object.Name)
				}
			}
			require.Equal(t, tc.unsure, unsure, tc.reason)
		})
	}
}
