package manifests

import (
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// A Role is rights that the operators need besides those of their configurations.
type Role struct {
	Namespace string // where they are needed; empty: in the whole cluster
	Rules     []rbacv1.PolicyRule
}

// ReadRules reads the documents of a file with further rights. A document is a list of
// rules, which hold wherever the operators work, or a Role with a namespace, or a
// ClusterRole. An error names the document and the rule.
func ReadRules(text []byte) (rules []rbacv1.PolicyRule, roles []Role, err error) {
	docs, err := splitDocuments(text)
	if err != nil {
		return nil, nil, err
	}
	if len(docs) == 0 {
		return nil, nil, errors.New("it is empty; write a list of rules, a Role or a ClusterRole")
	}
	for i, doc := range docs {
		listed, role, err := readRules(doc)
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		rules = append(rules, listed...)
		if role != nil {
			roles = append(roles, *role)
		}
	}
	return rules, roles, nil
}

// readRules reads one document: rules or a role.
func readRules(doc []byte) ([]rbacv1.PolicyRule, *Role, error) {
	var value any
	if err := yaml.Unmarshal(doc, &value); err != nil {
		return nil, nil, err
	}
	if _, list := value.([]any); list {
		var rules []rbacv1.PolicyRule
		if err := yaml.UnmarshalStrict(doc, &rules); err != nil {
			return nil, nil, err
		}
		return rules, nil, CheckRules(rules)
	}
	var role rbacv1.ClusterRole // a Role has no other fields
	if err := yaml.UnmarshalStrict(doc, &role); err != nil {
		return nil, nil, err
	}
	group := role.GroupVersionKind().Group == rbacv1.GroupName
	switch {
	case group && role.Kind == "Role" && role.Namespace == "":
		return nil, nil, fmt.Errorf("Role %s: it has no namespace; name one, or write its rules as a list, which hold wherever the operator works", role.Name)
	case group && role.AggregationRule != nil:
		return nil, nil, fmt.Errorf("%s %s: it has an aggregationRule, whose rules aren't known; write them down", role.Kind, role.Name)
	case group && role.Kind == "ClusterRole":
		role.Namespace = ""
	case !group || role.Kind != "Role":
		return nil, nil, fmt.Errorf("%s %s is neither a list of rules nor a Role nor a ClusterRole", role.APIVersion, role.Kind)
	}
	if err := CheckRules(role.Rules); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", role.Kind, role.Name, err)
	}
	return nil, &Role{role.Namespace, role.Rules}, nil
}

// CheckRules returns an error about a rule that an API server would refuse. It names the
// rule by its index.
func CheckRules(rules []rbacv1.PolicyRule) error {
	if len(rules) == 0 {
		return errors.New("there are no rules")
	}
	for i, r := range rules {
		urls, resources := len(r.NonResourceURLs) > 0, len(r.Resources) > 0
		switch {
		case len(r.Verbs) == 0:
			return fmt.Errorf("rules[%d]: verbs is empty", i)
		case urls && (resources || len(r.APIGroups) > 0 || len(r.ResourceNames) > 0):
			return fmt.Errorf("rules[%d]: it has nonResourceURLs, and apiGroups or resources; write two rules", i)
		case !urls && !resources:
			return fmt.Errorf("rules[%d]: resources is empty", i)
		case !urls && len(r.APIGroups) == 0:
			return fmt.Errorf(`rules[%d]: apiGroups is empty; the core group is ""`, i)
		}
	}
	return nil
}

// grant adds further rights. What isn't about resources is only found in a ClusterRole.
func (r *rights) grant(rules []rbacv1.PolicyRule, roles []Role) {
	for _, rule := range rules {
		one := []rbacv1.PolicyRule{rule}
		if len(rule.NonResourceURLs) > 0 || !r.restricted {
			r.grantEverywhere(one)
			continue
		}
		for _, ns := range r.namespaces {
			r.in[ns] = withMore(r.in[ns], one)
		}
	}
	for _, role := range roles {
		if role.Namespace == "" {
			r.grantEverywhere(role.Rules)
			continue
		}
		if !slices.Contains(r.namespaces, role.Namespace) {
			r.namespaces = append(r.namespaces, role.Namespace)
		}
		r.in[role.Namespace] = withMore(r.in[role.Namespace], role.Rules)
	}
}

// grantEverywhere adds rules for the whole cluster.
func (r *rights) grantEverywhere(rules []rbacv1.PolicyRule) {
	r.everywhere = withMore(r.everywhere, rules)
	r.related = false
}
