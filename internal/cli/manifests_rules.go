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

// rules returns the RBAC rules without which an operator can't do its work: see
// catalog.Catalog.Rules. Warnings tell of what can't be known without an API server.
func rules(cfg config.Operator) (rules, everywhere []rbacv1.PolicyRule, warnings []string, err error) {
	types, err := catalog.Offline(cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	parent, warnings := warnedMapping(cfg, cfg.Parent)
	var errs []error
	for _, child := range cfg.Children {
		m, warn := warnedMapping(cfg, child.Type)
		warnings = append(warnings, warn...)
		if m.ClusterScoped && !parent.ClusterScoped {
			errs = append(errs, fmt.Errorf("config: Children: %s is cluster-scoped, and a namespaced parent can't own it; take it out", child.Type))
		}
		warnings = append(warnings, escalation(m)...)
	}
	for _, related := range cfg.Related {
		_, warn := warnedMapping(cfg, related.Type)
		warnings = append(warnings, warn...)
	}
	for _, t := range cfg.FormerChildren {
		_, warn := warnedMapping(cfg, t)
		warnings = append(warnings, warn...)
	}
	rules, everywhere = types.Rules()
	return rules, everywhere, warnings, errors.Join(errs...)
}

// withMore returns rules and those of more that add something to them.
func withMore(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := slices.Clone(rules)
	for _, r := range more {
		given := slices.ContainsFunc(rules, func(other rbacv1.PolicyRule) bool {
			return slices.Equal(other.APIGroups, r.APIGroups) && slices.Equal(other.Resources, r.Resources) &&
				!slices.ContainsFunc(r.Verbs, func(verb string) bool { return !slices.Contains(other.Verbs, verb) })
		})
		if !given {
			out = append(out, r)
		}
	}
	return out
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
