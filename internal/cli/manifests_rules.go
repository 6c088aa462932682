package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
)

// rules returns the RBAC rules without which an operator can't do its work: for
// every type the verbs that the engine uses under the chosen strategy. Rights for
// requests that the user's handler makes by itself aren't among them. Warnings
// tell of what can't be known without an API server.
func rules(cfg config.Operator) (rules []rbacv1.PolicyRule, warnings []string, err error) {
	parent, warnings := warnedMapping(cfg, cfg.Parent)
	if err := catalog.CheckScope(cfg, !parent.ClusterScoped); err != nil {
		return nil, nil, err
	}
	rules = append(rules,
		// patch sets and removes finalizers, also the finalizer that an earlier
		// build has left.
		ruleFor(parent, "", "get", "list", "watch", "patch"),
		ruleFor(parent, "status", "update"),
	)
	if len(cfg.Children) > 0 {
		// For blockOwnerDeletion in the owner references of children, where the
		// admission plugin OwnerReferencesPermissionEnforcement is on.
		rules = append(rules, ruleFor(parent, "finalizers", "update"))
	}
	var errs []error
	for _, child := range cfg.Children {
		m, warn := warnedMapping(cfg, child.Type)
		warnings = append(warnings, warn...)
		if m.ClusterScoped && !parent.ClusterScoped {
			errs = append(errs, fmt.Errorf("config: Children: %s is cluster-scoped, and a namespaced parent can't own it; take it out", child.Type))
		}
		warnings = append(warnings, escalation(m)...)
		rules = append(rules, ruleFor(m, "", childVerbs(child)...))
	}
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
	return rules, warnings, errors.Join(errs...)
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

// leaseRules returns the rules for the leader election, in the operator's own
// namespace. They are two, since a create can't be restricted to a name.
func leaseRules(lease string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}},
	}
}

// ruleFor returns the rule that allows verbs on a resource or its subresource.
func ruleFor(m resource.Mapping, subresource string, verbs ...string) rbacv1.PolicyRule {
	name := m.Plural
	if subresource != "" {
		name += "/" + subresource
	}
	return rbacv1.PolicyRule{APIGroups: []string{m.Type.GroupVersionKind().Group}, Resources: []string{name}, Verbs: verbs}
}

// warnedMapping returns how a type is served, and a warning if that is a guess.
func warnedMapping(cfg config.Operator, t resource.Type) (m resource.Mapping, warnings []string) {
	m, guessed := catalog.MappingOf(cfg, t)
	if guessed {
		warnings = append(warnings, fmt.Sprintf("%s: taken for the namespaced resource %q, which is a guess; say it in config.Operator.Mappings", t, m.Plural))
	}
	return m, warnings
}

// escalation returns a warning if a kind grants rights, which takes more than its
// rule.
func escalation(m resource.Mapping) []string {
	if m.Type.GroupVersionKind().Group != rbacv1.GroupName {
		return nil
	}
	verb := "escalate"
	if strings.HasSuffix(m.Type.Kind, "Binding") {
		verb = "bind"
	}
	return []string{fmt.Sprintf("%s: who grants rights needs them himself, or the verb %q, which isn't in these rules; add what the children grant", m.Type, verb)}
}
