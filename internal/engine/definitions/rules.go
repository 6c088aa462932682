package definitions

import rbacv1 "k8s.io/api/rbac/v1"

// Rules returns the RBAC rules that Install needs for definitions of these names. They are
// two, since a create can't be restricted to a name.
func Rules(names []string) []rbacv1.PolicyRule {
	group, resource := []string{"apiextensions.k8s.io"}, []string{resourceName}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: resource, Verbs: []string{"create"}},
		{APIGroups: group, Resources: resource, ResourceNames: names, Verbs: []string{"get", "patch"}},
	}
}
