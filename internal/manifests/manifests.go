package manifests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/catalog"
)

// Options are what an installation is made of besides the operators' configurations.
type Options struct {
	Name           string // the program's
	Namespace      string // to install the operators in
	Image          string
	Replicas       int
	ServiceMonitor bool     // whether to add a ServiceMonitor and its Service
	Args           []string // of the container, besides --leader-elect
	// Lease is the one of the election. Without a name it has the first operator's,
	// without a namespace it is where the operators are installed.
	Lease types.NamespacedName
}

// Manifests are the objects that run the operators of a program in a cluster.
type Manifests struct {
	// Warnings tell of what can't be known without an API server.
	Warnings []string
	header   string // a comment that says what the objects are
	objects  []any  // in the order in which they are to be created
}

// An installation is what the objects of a program have in common.
type installation struct {
	Options
	labels map[string]string
}

// Make returns the objects that run operators in a cluster. Their
// CustomResourceDefinitions and namespace aren't among them. An error says which
// configuration is wrong, or that the program's name can't be that of a Deployment.
func Make(operators []config.Operator, o Options) (*Manifests, error) {
	configs := make([]config.Operator, 0, len(operators))
	for _, cfg := range operators {
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		configs = append(configs, defaults.Apply(cfg))
	}
	if len(validation.IsDNS1123Subdomain(o.Name)) > 0 || len(o.Name) > validation.LabelValueMaxLength {
		return nil, fmt.Errorf("runner.Program: Name: %q can't be the name of a Deployment; it must consist of at most %d lower case letters, digits, '-' and '.'", o.Name, validation.LabelValueMaxLength)
	}
	in := installation{Options: o, labels: map[string]string{
		"app.kubernetes.io/name":      o.Name,
		"app.kubernetes.io/component": "operator",
	}}
	return in.make(configs)
}

// YAML returns the objects as one stream of YAML documents.
func (m *Manifests) YAML() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(m.header)
	for _, object := range m.objects {
		doc, err := manifestYAML(object)
		if err != nil {
			return nil, fmt.Errorf("manifests: %T: %w", object, err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes(), nil
}

// header returns the comment that says what the objects are.
func header(operators []config.Operator, namespace string) string {
	if len(operators) == 1 {
		return fmt.Sprintf("# The operator %s, to be applied once its CustomResourceDefinition and the namespace %s are there.\n", operators[0].Name, namespace)
	}
	names := make([]string, 0, len(operators))
	for _, o := range operators {
		names = append(names, o.Name)
	}
	return fmt.Sprintf("# The operators %s, to be applied once their CustomResourceDefinitions and the namespace %s are there.\n", strings.Join(names, ", "), namespace)
}

// make returns the objects of operators, each with its defaults.
func (in *installation) make(operators []config.Operator) (*Manifests, error) {
	needed, warnings, err := rightsOf(operators)
	if err != nil {
		return nil, err
	}
	objects := []any{&corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: in.meta(in.Name)}}
	if len(needed.everywhere) > 0 {
		name := in.roleName()
		if needed.related {
			name += "-related"
		}
		objects = append(objects, in.clusterRole(name, needed.everywhere)...)
	}
	for _, ns := range needed.namespaces {
		objects = append(objects, in.role(ns, in.roleName(), needed.in[ns])...)
	}
	election := catalog.LeaseRules(cmp.Or(in.Lease.Name, operators[0].Name))
	objects = append(objects, in.role(cmp.Or(in.Lease.Namespace, in.Namespace), in.roleName()+"-leader-election", election)...)
	if in.ServiceMonitor {
		objects = append(objects, in.metricsService())
	}
	objects = append(objects, in.deployment(), in.disruptionBudget())
	if in.ServiceMonitor {
		objects = append(objects, in.monitor())
	}
	return &Manifests{Warnings: warnings, header: header(operators, in.Namespace), objects: objects}, nil
}

// typeMeta returns the TypeMeta of a kind.
func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// meta returns the metadata of an object in the namespace of the installation.
func (in *installation) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: in.Namespace, Labels: in.labels}
}

// roleName returns a name for the program's roles that no built-in ClusterRole,
// such as admin, has.
func (in *installation) roleName() string {
	if strings.HasSuffix(in.Name, "-operator") {
		return in.Name
	}
	return in.Name + "-operator"
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

// DefaultNamespace returns the namespace that an operator is installed in
// unless --install-namespace names another.
func DefaultNamespace(operator string) string { return dnsLabel(operator, "-system") }
