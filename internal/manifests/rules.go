package manifests

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

// withMore returns rules and what more adds to them: verbs to a rule for the same
// objects, and further rules. The order is that of the first mention.
func withMore(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := slices.Clone(rules)
	for _, r := range more {
		i := slices.IndexFunc(out, func(other rbacv1.PolicyRule) bool {
			return slices.Equal(other.APIGroups, r.APIGroups) && slices.Equal(other.Resources, r.Resources) && slices.Equal(other.ResourceNames, r.ResourceNames) &&
				slices.Equal(other.NonResourceURLs, r.NonResourceURLs)
		})
		if i < 0 {
			out = append(out, r)
			continue
		}
		out[i].Verbs = slices.Clone(out[i].Verbs)
		for _, verb := range r.Verbs {
			if !slices.Contains(out[i].Verbs, verb) {
				out[i].Verbs = append(out[i].Verbs, verb)
			}
		}
	}
	return out
}

// rights are the rules that a program needs.
type rights struct {
	everywhere []rbacv1.PolicyRule            // in all namespaces
	restricted bool                           // no operator works in all namespaces
	related    bool                           // everywhere is only of related objects
	namespaces []string                       // those of the operators that are restricted, in order
	in         map[string][]rbacv1.PolicyRule // in each of them
}

// rightsOf returns the rules that several operators of one program need together, each
// with its defaults. Warnings tell of what can't be known without an API server.
func rightsOf(operators []config.Operator) (rights, []string, error) {
	out := rights{restricted: true, related: true, in: map[string][]rbacv1.PolicyRule{}}
	var warnings []string
	var errs []error
	for _, cfg := range operators {
		needed, everywhere, warned, err := rules(cfg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, w := range warned {
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
		if len(cfg.Namespaces) == 0 {
			out.restricted, out.related = false, false
			out.everywhere = withMore(out.everywhere, needed)
		}
		out.everywhere = withMore(out.everywhere, everywhere)
		for _, ns := range cfg.Namespaces {
			if _, known := out.in[ns]; !known {
				out.namespaces = append(out.namespaces, ns)
			}
			out.in[ns] = withMore(out.in[ns], needed)
		}
	}
	return out, warnings, errors.Join(errs...)
}

// warnedMapping returns how a type is served, and a warning if that is a guess.
func warnedMapping(cfg config.Operator, t resource.Type) (m resource.Mapping, warnings []string) {
	m, guessed := catalog.MappingOf(cfg, t)
	if guessed {
		warnings = append(warnings, fmt.Sprintf("%s: taken for the namespaced resource %q, which is a guess; say it in config.Operator.Mappings, or by its CustomResourceDefinition in CRDs", t, m.Plural))
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
