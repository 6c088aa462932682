package catalog

import (
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/roperator/roperator/config"
)

// A need is an RBAC rule about one resource, and what it is for.
type need struct {
	rule    rbacv1.PolicyRule
	of      *Kind  // the type that the rule is about; nil: Events about parents
	watched bool   // objects of the type are listed and watched
	only    string // when the rule is needed; empty: at any time
	related bool   // objects of the type are read if a parent refers to them
	former  bool   // objects of the type are listed at the start, and deleted
}

// Rules returns the RBAC rules without which an operator can't do its work: for
// every type the verbs that the engine uses under the chosen strategy. Rights for
// requests that the user's handler makes by itself aren't among them. everywhere are the
// rules that the operator needs in all namespaces even if it is restricted to some.
func (c *Catalog) Rules() (rules, everywhere []rbacv1.PolicyRule) {
	for _, n := range c.needs() {
		if n.related && n.of.Everywhere {
			everywhere = append(everywhere, n.rule)
		} else {
			rules = append(rules, n.rule)
		}
	}
	return rules, everywhere
}

// LeaseRules returns the rules for a leader election by the Lease of this name, in
// the Lease's namespace. They are two, since a create can't be restricted to a name.
func LeaseRules(lease string) []rbacv1.PolicyRule {
	group, resource := []string{coordinationv1.GroupName}, []string{"leases"}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: resource, Verbs: []string{"create"}},
		{APIGroups: group, Resources: resource, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}},
	}
}

// ShardRules returns the rules to share the parents by Leases, in the Leases' namespace. They name no
// Lease: each replica has one of its own.
func ShardRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "create", "update", "delete"},
	}}
}

// ReviewRules returns the rules to ask who somebody is and what they may do, in the whole
// cluster.
func ReviewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{authorizationv1.GroupName}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}

// needs returns the rules of a catalog, and what they are for.
func (c *Catalog) needs() []need {
	// patch sets and removes finalizers, also the finalizer that an earlier build has
	// left.
	needs := []need{{rule: c.Parent.policyRule("", "get", "list", "watch", "patch"), of: c.Parent, watched: true}}
	if c.Parent.HasStatus {
		needs = append(needs, need{rule: c.Parent.policyRule("status", "update"), of: c.Parent})
	}
	if len(c.Children) > 0 { // for blockOwnerDeletion in their owner references
		needs = append(needs, need{
			rule: c.Parent.policyRule("finalizers", "update"), of: c.Parent,
			only: "the admission plugin OwnerReferencesPermissionEnforcement is on",
		})
	}
	for _, k := range c.Children {
		if k.Unserved {
			continue // its resource isn't known
		}
		needs = append(needs, need{rule: k.policyRule("", childVerbs(k.Child)...), of: k, watched: true})
	}
	for _, k := range c.Related {
		if k.Unserved || !k.Everywhere && c.Of(k.Type) != nil {
			continue // what it needs as the type of the parents or of children is more
		}
		needs = append(needs, need{rule: k.policyRule("", "get", "list", "watch"), of: k, related: true})
	}
	for _, k := range c.Former {
		needs = append(needs, need{rule: k.policyRule("", "get", "list", "delete"), of: k, former: true})
	}
	return append(needs, need{rule: rbacv1.PolicyRule{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}})
}

// childVerbs returns the verbs that the engine uses on a type of children. It
// needs get to see who has a child's name, patch to take an object over and to set
// the mark, and update also for dry runs.
func childVerbs(child config.Child) []string {
	verbs := []string{"get", "list", "watch", "create", "patch", "delete"}
	if child.Strategy != config.OnDelete {
		verbs = slices.Insert(verbs, 4, "update")
	}
	return verbs
}

// policyRule returns the rule that allows verbs on a type, or on a subresource of
// it (empty: the type itself).
func (k *Kind) policyRule(subresource string, verbs ...string) rbacv1.PolicyRule {
	name := k.GVR.Resource
	if subresource != "" {
		name += "/" + subresource
	}
	return rbacv1.PolicyRule{APIGroups: []string{k.GVR.Group}, Resources: []string{name}, Verbs: verbs}
}
