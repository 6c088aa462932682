package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/catalog"
)

// manifestOptions are the flags of the subcommand manifests.
type manifestOptions struct {
	namespace      string // to install the operator in
	image          string
	replicas       int
	serviceMonitor bool     // whether to add a ServiceMonitor and its Service
	args           []string // of the operator's container, besides --leader-elect
}

// An installation is what the objects of an operator have in common.
type installation struct {
	manifestOptions
	operator string // the operator's name
	labels   map[string]string
}

// printManifests prints as YAML the objects that run an operator in a cluster. Its
// CustomResourceDefinition and its namespace aren't among them. It asks no API
// server. Warnings go to stderr.
func printManifests(cfg config.Operator, o manifestOptions, stdout, stderr io.Writer) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	objects, warnings, err := manifests(defaults.Apply(cfg), o)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintf(stderr, "manifests: warning: %s\n", w)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# The operator %s, to be applied once its CustomResourceDefinition and the namespace %s are there.\n", cfg.Name, o.namespace)
	for _, object := range objects {
		doc, err := manifestYAML(object)
		if err != nil {
			return fmt.Errorf("manifests: %T: %w", object, err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	_, err = stdout.Write(out.Bytes())
	return err
}

// manifests returns the objects in the order in which they are to be created, and
// warnings about what can't be known without an API server.
func manifests(cfg config.Operator, o manifestOptions) (objects []any, warnings []string, err error) {
	in := installation{manifestOptions: o, operator: cfg.Name, labels: map[string]string{
		"app.kubernetes.io/name":      cfg.Name,
		"app.kubernetes.io/component": "operator",
	}}
	needed, everywhere, warnings, err := rules(cfg)
	if err != nil {
		return nil, nil, err
	}
	objects = append(objects, &corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: in.meta(in.operator)})
	if len(cfg.Namespaces) == 0 {
		objects = append(objects, in.clusterRole(in.roleName(), withMore(needed, everywhere))...)
	} else if len(everywhere) > 0 {
		objects = append(objects, in.clusterRole(in.roleName()+"-related", everywhere)...)
	}
	for _, ns := range cfg.Namespaces {
		objects = append(objects, in.role(ns, in.roleName(), needed)...)
	}
	objects = append(objects, in.role(in.namespace, in.roleName()+"-leader-election", catalog.LeaseRules(in.operator))...)
	if o.serviceMonitor {
		objects = append(objects, in.metricsService())
	}
	objects = append(objects, in.deployment(), in.disruptionBudget())
	if o.serviceMonitor {
		objects = append(objects, in.monitor())
	}
	return objects, warnings, nil
}

// typeMeta returns the TypeMeta of a kind.
func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// meta returns the metadata of an object in the namespace of the installation.
func (in *installation) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: in.namespace, Labels: in.labels}
}

// roleName returns a name for the operator's roles that no built-in ClusterRole,
// such as admin, has.
func (in *installation) roleName() string {
	if strings.HasSuffix(in.operator, "-operator") {
		return in.operator
	}
	return in.operator + "-operator"
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
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: in.operator, Namespace: in.namespace}}
}

// manifestYAML returns an object as YAML, without its status and its empty fields.
func manifestYAML(object any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	return yaml.Marshal(withoutEmpty(fields))
}

// withoutEmpty drops nulls and empty maps, as which Go encodes empty structs. It
// changes v.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			value = withoutEmpty(value)
			if m, ok := value.(map[string]any); value == nil || ok && len(m) == 0 {
				delete(v, key)
				continue
			}
			v[key] = value
		}
	case []any:
		for i, item := range v {
			v[i] = withoutEmpty(item)
		}
	}
	return v
}

// dnsLabel returns a DNS label that ends in suffix, made of an operator's name,
// which may have dots.
func dnsLabel(name, suffix string) string {
	name = strings.ReplaceAll(name, ".", "-")
	if name[0] >= '0' && name[0] <= '9' {
		name = "operator-" + name
	}
	return strings.TrimRight(name[:min(len(name), 63-len(suffix))], "-") + suffix
}

// defaultInstallNamespace returns the namespace that an operator is installed in
// unless --install-namespace names another.
func defaultInstallNamespace(operator string) string { return dnsLabel(operator, "-system") }
