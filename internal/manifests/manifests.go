package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
)

// Manifests are the objects that run the operators of a program in a cluster.
type Manifests struct {
	// Warnings tell of what can't be known without an API server.
	Warnings []string

	options Options
	configs []config.Operator // as they are without --namespace, each with its defaults
	header  string            // a comment that says what the objects are
	crds    []definition
	parts   []part
}

// A part is objects that belong together: a file of the installation.
type part struct {
	name    string // of the file, without its ending
	wanted  bool   // whether the options ask for it
	value   string // the condition on which a Helm chart has it; empty: always
	objects []any  // in the order in which they are to be created
}

// An installation is what the objects of a program have in common.
type installation struct {
	Options
	labels map[string]string
	crds   []definition
}

// Make returns the objects that run operators in a cluster. Their namespace isn't among
// them. An error says which configuration or option is wrong, or that the program's name
// can't be that of a Deployment.
func Make(operators []config.Operator, o Options) (*Manifests, error) {
	if len(validation.IsDNS1123Subdomain(o.Name)) > 0 || len(o.Name) > validation.LabelValueMaxLength {
		return nil, fmt.Errorf("runner.Program: Name: %q can't be the name of a Deployment; it must consist of at most %d lower case letters, digits, '-' and '.'", o.Name, validation.LabelValueMaxLength)
	}
	var wrong []error
	for _, cfg := range operators {
		wrong = append(wrong, cfg.Validate())
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	crds, err := definitionsOf(operators)
	if err != nil {
		return nil, err
	}
	configs, err := withMappings(operators, crds)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	in := newInstallation(o, crds)
	parts, warnings, err := in.parts(restricted(configs, o.WatchNamespace))
	if err != nil {
		return nil, err
	}
	return &Manifests{Warnings: warnings, options: o, configs: configs, header: header(configs, o.Namespace, len(crds) > 0), crds: crds, parts: parts}, nil
}

func newInstallation(o Options, crds []definition) *installation {
	return &installation{Options: o, crds: crds, labels: map[string]string{
		"app.kubernetes.io/name":      o.Name,
		"app.kubernetes.io/component": "operator",
	}}
}

// restricted returns operators as --namespace changes them: they are as they are
// without it.
func restricted(operators []config.Operator, namespace string) []config.Operator {
	if namespace == "" {
		return operators
	}
	out := slices.Clone(operators)
	for i := range out {
		out[i].Namespaces = []string{namespace}
	}
	return out
}

// header returns the comment that says what the objects are.
func header(operators []config.Operator, namespace string, withCRDs bool) string {
	what, after := "The operator "+operators[0].Name, "its CustomResourceDefinition and the namespace "+namespace+" are"
	if len(operators) > 1 {
		names := make([]string, 0, len(operators))
		for _, o := range operators {
			names = append(names, o.Name)
		}
		what, after = "The operators "+strings.Join(names, ", "), "their CustomResourceDefinitions and the namespace "+namespace+" are"
	}
	if withCRDs {
		after = "the namespace " + namespace + " is"
	}
	return fmt.Sprintf("# %s, to be applied once %s there.\n", what, after)
}

// parts returns all parts in the order in which they are to be created, and warnings
// about what can't be known without an API server. Each operator has its defaults.
func (in *installation) parts(operators []config.Operator) (parts []part, warnings []string, err error) {
	needed, warnings, err := rightsOf(operators)
	if err != nil {
		return nil, nil, err
	}
	needed.grant(in.Rules, in.Roles)
	election := catalog.LeaseRules(cmp.Or(in.Lease.Name, operators[0].Name))
	if in.Shards > 0 {
		election = catalog.ShardRules()
	}
	return []part{
		{"service-account", true, "", []any{in.serviceAccount()}},
		{"rights", true, "", in.rights(needed)},
		{"rights-crds", in.InstallCRDs, ".Values.installCRDs", in.crdRights()},
		{"rights-leader-election", true, "", in.role(cmp.Or(in.Lease.Namespace, in.Namespace), in.roleName()+"-leader-election", election)},
		{"rights-metrics", in.MetricsSecure, ".Values.metrics.secure", in.metricsRights()},
		{"rights-window", in.WindowPort != 0, "", in.windowRights()},
		{"parent-roles", in.ParentRoles, ".Values.parentRoles.create", in.parentRoles(operators)},
		{"metrics-service", in.ServiceMonitor, ".Values.serviceMonitor.enabled", []any{in.metricsService()}},
		{"network-policy", in.NetworkPolicy, ".Values.networkPolicy.enabled", []any{in.networkPolicy()}},
		{"deployment", true, "", []any{in.deployment()}},
		{"disruption-budget", true, "", []any{in.disruptionBudget()}},
		{"service-monitor", in.ServiceMonitor, ".Values.serviceMonitor.enabled", []any{in.monitor()}},
	}, warnings, nil
}

// typeMeta returns the TypeMeta of a kind.
func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// meta returns the metadata of an object in the namespace of the installation.
func (in *installation) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: in.Namespace, Labels: in.labels}
}
