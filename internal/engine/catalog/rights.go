package catalog

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Right is what an RBAC rule allows for one verb, one resource and one namespace.
// Rights may be compared.
type Right struct {
	Verb, Group, Resource string // Resource includes the subresource, as in pods/status
	Namespaced            bool   // whether objects of the resource live in namespaces
	Namespace             string // empty: all namespaces, or the objects have none
	Name                  string // of the only object that is meant; empty: any object
	Selector              string // the label selector of a list or a watch; empty: every object

	// Required says that the operator can't work without the right. Whether it ever
	// uses another one depends on what the handler asks for, and on the cluster.
	Required bool
	// Only says when the right is needed; empty: at any time.
	Only string
}

// Rights returns the rights that an operator needs: those that Catalog.Rules gives
// it, in each of the configured namespaces or in all. Those to read related objects aren't
// among them: a rule with resourceNames may be enough, and which those are only the parents
// say.
func (s *Settings) Rights() []Right {
	var rights []Right
	for _, n := range s.Types.needs() {
		if n.related { // by names, perhaps, that only parents know
			continue
		}
		like := Right{Namespaced: n.of == nil || n.of.Namespaced, Only: n.only}
		for _, namespace := range s.namespacesOf(n) {
			like.Namespace = namespace
			for _, r := range rightsOf(n.rule, like) {
				if n.watched && (r.Verb == "list" || r.Verb == "watch") || n.former && r.Verb == "list" {
					r.Required, r.Selector = true, s.SelectorOf(n.of)
				}
				rights = append(rights, r)
			}
		}
	}
	return rights
}

// LeaseRights returns the rights that a leader election needs. Without that to create
// the Lease it can still take one that exists.
func LeaseRights(namespace, lease string) []Right {
	var rights []Right
	for _, rule := range LeaseRules(lease) {
		for _, r := range rightsOf(rule, Right{Namespaced: true, Namespace: namespace}) {
			r.Required = r.Verb != "create"
			rights = append(rights, r)
		}
	}
	return rights
}

// ShardRights returns the rights that it takes to share the parents by Leases.
func ShardRights(namespace string) []Right {
	var rights []Right
	for _, rule := range ShardRules() {
		for _, r := range rightsOf(rule, Right{Namespaced: true, Namespace: namespace}) {
			r.Required = r.Verb != "delete"
			rights = append(rights, r)
		}
	}
	return rights
}

// ReviewRights returns the rights that it takes to protect metrics. Without them nobody
// gets those, and the operator does its work.
func ReviewRights() []Right {
	var rights []Right
	for _, rule := range ReviewRules() {
		rights = append(rights, rightsOf(rule, Right{Only: "somebody scrapes the metrics"})...)
	}
	return rights
}

// rightsOf returns the rights that a rule for one resource gives. They are otherwise as
// like says.
func rightsOf(rule rbacv1.PolicyRule, like Right) []Right {
	like.Group, like.Resource = rule.APIGroups[0], rule.Resources[0]
	if len(rule.ResourceNames) > 0 {
		like.Name = rule.ResourceNames[0]
	}
	rights := make([]Right, 0, len(rule.Verbs))
	for _, verb := range rule.Verbs {
		like.Verb = verb
		rights = append(rights, like)
	}
	return rights
}

// namespacesOf returns the namespaces in which a rule is needed. Events about an object
// without a namespace are in the namespace default.
func (s *Settings) namespacesOf(n need) []string {
	switch {
	case n.of != nil:
		return s.NamespacesOf(n.of)
	case s.Types.Parent.Namespaced:
		return s.NamespacesOf(s.Types.Parent)
	}
	return []string{metav1.NamespaceDefault}
}

// NamespacesOf returns the namespaces in which the operator is concerned with a type:
// the configured ones, or the empty name, which stands for all of them. The caller may
// change the list.
func (s *Settings) NamespacesOf(k *Kind) []string {
	if !k.Namespaced || len(s.Config.Namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return slices.Clone(s.Config.Namespaces)
}

// SelectorOf returns the label selector with which a type is watched, "" for none.
func (s *Settings) SelectorOf(k *Kind) string {
	if k == s.Types.Parent {
		return s.Config.ParentSelector
	}
	if s.Shard.Divides() {
		return s.ChildSelector() + "," + s.Shard.BucketSelector(s.Bucket)
	}
	return s.ChildSelector()
}
