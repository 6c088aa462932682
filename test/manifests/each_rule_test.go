package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// None of the rules is too much: with any verb less in any of them, the operator
// can't do all of its work, and says which verb on which resource it lacks. It can't
// ask for its rights beforehand, which would tell without any need.
func TestEveryRuleIsNeeded(t *testing.T) {
	seen := 0
	for doc := range strings.SplitSeq(manifestsFor(t, "rights", "--namespace=x", "--install-namespace=x"), "---\n") {
		var role rbacv1.Role
		require.NoError(t, yaml.Unmarshal([]byte(doc), &role))
		if role.Kind != "Role" {
			continue
		}
		for i, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				seen++
				t.Run(role.Name+"/"+rule.Resources[0]+"/"+verb, func(t *testing.T) {
					t.Parallel()
					s := newStage(t, false, func(of string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
						if of == role.Name {
							rules[i].Verbs = slices.DeleteFunc(slices.Clone(rules[i].Verbs), func(v string) bool { return v == verb })
						}
						return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
					})
					s.refuseReviews()
					want := `cannot ` + verb + ` resource "` + rule.Resources[0] + `"`
					switch {
					case strings.HasSuffix(rule.Resources[0], "/finalizers"):
						want = "blockOwnerDeletion"
					case verb == "delete": // without which it may not even become the owner
						want = `resources: ["` + rule.Resources[0] + `"], verbs: ["delete"]}`
					}
					require.False(t, s.play(false, want), "never told: %s\n%s", want, s.said())
				})
			}
		}
	}
	require.Greater(t, seen, 30)
}
