package manifests

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
)

// serviceAccount returns the one that the operators run as.
func (in *installation) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: in.meta(in.Name)}
}

// rights returns the roles with what operators need, and their bindings.
func (in *installation) rights(needed rights) []any {
	var out []any
	if len(needed.everywhere) > 0 {
		name := in.roleName()
		if needed.related {
			name += "-related"
		}
		out = append(out, in.clusterRole(name, needed.everywhere)...)
	}
	for _, ns := range needed.namespaces {
		out = append(out, in.role(ns, in.roleName(), needed.in[ns])...)
	}
	return out
}

// crdRights returns the rights to apply the CustomResourceDefinitions at the start. A
// create can't be restricted to names.
func (in *installation) crdRights() []any {
	group, definitions := []string{"apiextensions.k8s.io"}, []string{"customresourcedefinitions"}
	var names []string
	for _, c := range in.crds {
		names = append(names, c.Name)
	}
	return in.clusterRole(in.roleName()+"-crds", []rbacv1.PolicyRule{
		{APIGroups: group, Resources: definitions, Verbs: []string{"create"}},
		{APIGroups: group, Resources: definitions, ResourceNames: names, Verbs: []string{"get", "patch"}},
	})
}

// metricsRights returns the rights to ask who may get the metrics, and a ClusterRole for
// those who may, which is bound to nobody.
func (in *installation) metricsRights() []any {
	return append(in.clusterRole(in.roleName()+"-metrics-auth", catalog.ReviewRules()), in.getter(in.metricsReader(), "/metrics"))
}

// windowRights returns the rights to ask who may look at the window, and a ClusterRole for
// those who may, which is bound to nobody. The page itself is for everybody: it has no data.
func (in *installation) windowRights() []any {
	return append(in.clusterRole(in.roleName()+"-window-auth", catalog.ReviewRules()), in.getter(in.windowViewer(), "/window/*"))
}

// getter returns a ClusterRole of those who may get URLs of the program.
func (in *installation) getter(name, urls string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "ClusterRole"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: in.labels},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{urls}, Verbs: []string{"get"}}},
	}
}

// parentRoles returns a ClusterRole for those who look at parents and one for those who
// edit them. They become part of the built-in roles view, edit and admin.
func (in *installation) parentRoles(operators []config.Operator) []any {
	var view, edit []rbacv1.PolicyRule
	for _, cfg := range operators {
		m, _ := catalog.MappingOf(cfg, cfg.Parent)
		group := []string{m.Type.GroupVersionKind().Group}
		view = withMore(view, []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{m.Plural}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: group, Resources: []string{m.Plural + "/status"}, Verbs: []string{"get"}},
		})
		edit = withMore(edit, []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{m.Plural}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}},
			{APIGroups: group, Resources: []string{m.Plural + "/status"}, Verbs: []string{"get"}},
		})
	}
	role := func(suffix string, rules []rbacv1.PolicyRule, into ...string) *rbacv1.ClusterRole {
		labels := map[string]string{}
		maps.Copy(labels, in.labels)
		for _, name := range into {
			labels["rbac.authorization.k8s.io/aggregate-to-"+name] = "true"
		}
		return &rbacv1.ClusterRole{
			TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "ClusterRole"),
			ObjectMeta: metav1.ObjectMeta{Name: in.roleName() + suffix, Labels: labels}, Rules: rules,
		}
	}
	return []any{role("-viewer", view, "view", "edit", "admin"), role("-editor", edit, "edit", "admin")}
}

// clusterRole returns a ClusterRole with these rules, and its binding to the
// operator.
func (in *installation) clusterRole(name string, needed []rbacv1.PolicyRule) []any {
	meta := metav1.ObjectMeta{Name: name, Labels: in.labels}
	return []any{
		&rbacv1.ClusterRole{TypeMeta: typeMeta("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: meta, Rules: needed},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: typeMeta("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: in.subjects(),
		},
	}
}

// role returns a Role with these rules in a namespace, and its binding to the
// operator.
func (in *installation) role(namespace, name string, needed []rbacv1.PolicyRule) []any {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: in.labels}
	return []any{
		&rbacv1.Role{TypeMeta: typeMeta("rbac.authorization.k8s.io/v1", "Role"), ObjectMeta: meta, Rules: needed},
		&rbacv1.RoleBinding{
			TypeMeta: typeMeta("rbac.authorization.k8s.io/v1", "RoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: in.subjects(),
		},
	}
}

// subjects returns the operator's ServiceAccount.
func (in *installation) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: in.Name, Namespace: in.Namespace}}
}
