package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/manifests"
)

const manifestsDetails = `It prints YAML for kubectl apply: the operator's CustomResourceDefinitions, if
it has any, a ServiceAccount, the RBAC rules that the operator's configuration
needs and no others, a Deployment, and a PodDisruptionBudget. An operator that
is restricted to namespaces, by its configuration or by --namespace, gets Roles
in these only. The namespace isn't part of it. What the handler does by itself
needs rules of its own: --rules. No API server is asked.

With -o kustomize or -o helm it writes a base for kustomize or a Helm chart to
--output-dir. The chart's values are what the flags say.`

// manifestsSubcommand returns the subcommand that prints the objects of the
// operator's installation.
func manifestsSubcommand() subcommand {
	return subcommand{name: "manifests", summary: "print the objects that run the operator in a cluster, as YAML", details: manifestsDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		m := &manifestsFlags{Options: manifests.Options{Replicas: 1, Resources: manifests.DefaultResources(), ChartVersion: "0.1.0"}, output: "yaml"}
		m.register(fs)
		return func(_ context.Context, c *command) int {
			// The restriction is part of the installation, which knows both ways.
			m.WatchNamespace, f.namespace = f.namespace, ""
			operators, err := c.operators(nowhere())
			if err == nil {
				err = c.makeManifests(operators, m)
			}
			if err != nil {
				printErrors(c.stderr, "manifests", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// nowhere returns a configuration for a subcommand that asks no API server.
func nowhere() *rest.Config {
	return &rest.Config{Host: "manifests.invalid", Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the subcommand manifests reaches no API server")
	}}
}

// makeManifests prints or writes the objects of an installation. Warnings go to the
// standard error.
func (c *command) makeManifests(operators []Operator, m *manifestsFlags) error {
	if err := m.check(); err != nil {
		return err
	}
	o, err := c.installing(operators, m)
	if err != nil {
		return err
	}
	configs := make([]config.Operator, 0, len(operators))
	for _, each := range operators {
		configs = append(configs, each.Config)
	}
	made, err := manifests.Make(configs, o)
	if err != nil {
		return err
	}
	if m.Image == "" {
		made.Warnings = append([]string{fmt.Sprintf("the image is taken for %s; name it by --image", o.Image)}, made.Warnings...)
	}
	if err := m.write(made, c.stdout); err != nil {
		return err
	}
	for _, w := range made.Warnings {
		fmt.Fprintf(c.stderr, "manifests: warning: %s\n", w)
	}
	return nil
}

// installing returns the options with what the flags leave open.
func (c *command) installing(operators []Operator, m *manifestsFlags) (manifests.Options, error) {
	defaults := &c.program.Defaults
	o := m.Options
	o.Name = cmp.Or(c.program.Name, operators[0].Config.Name)
	o.Lease = defaults.Lease
	if o.Namespace == "" && o.Name != "" {
		o.Namespace = manifests.DefaultNamespace(o.Name)
	}
	o.Image = cmp.Or(o.Image, o.Name+":latest")
	if rules := c.program.Rules; len(rules) > 0 {
		if err := manifests.CheckRules(rules); err != nil {
			return o, fmt.Errorf("runner.Program: Rules: %w", err)
		}
		o.Rules = append(slices.Clip(rules), o.Rules...)
	}
	// The ports of the Deployment are fixed unless --arg says otherwise.
	if defaults.MetricsAddress != "" {
		o.FixedArgs = append(o.FixedArgs, fmt.Sprintf("--metrics-bind-address=:%d", manifests.MetricsPort))
	}
	if defaults.HealthAddress != "" {
		o.FixedArgs = append(o.FixedArgs, fmt.Sprintf("--health-probe-bind-address=:%d", manifests.HealthPort))
	}
	return o, c.readArguments(&o)
}
