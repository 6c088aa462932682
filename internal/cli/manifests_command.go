package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/manifests"
)

const manifestsDetails = `It prints YAML for kubectl apply: a ServiceAccount, the RBAC rules that the
operator's configuration needs and no others, a Deployment, and a
PodDisruptionBudget. An operator that is restricted to namespaces, by its
configuration or by --namespace, gets Roles in these only. The
CustomResourceDefinition and the namespace aren't part of it, nor are rights
for what the handler does by itself. No API server is asked.`

// manifestsSubcommand returns the subcommand that prints the objects of the
// operator's installation.
func manifestsSubcommand() subcommand {
	return subcommand{name: "manifests", summary: "print the objects that run the operator in a cluster, as YAML", details: manifestsDetails, prepare: func(fs *flag.FlagSet, _ *flags) carryOut {
		o := manifests.Options{Replicas: 1}
		fs.Func("install-namespace", "namespace to install the operator in (default: its name with -system)", func(value string) error {
			if msgs := validation.IsDNS1123Label(value); len(msgs) > 0 {
				return errors.New(msgs[0])
			}
			o.Namespace = value
			return nil
		})
		fs.StringVar(&o.Image, "image", "", "image of the operator (default: its name with :latest)")
		fs.Func("replicas", "how many Pods, of which one leads (default 1)", func(value string) error {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return errors.New("not a number of Pods")
			}
			o.Replicas = int(n)
			return nil
		})
		fs.BoolVar(&o.ServiceMonitor, "service-monitor", false, "add a Service of the metrics and a ServiceMonitor for the Prometheus Operator")
		return func(_ context.Context, c *command) int {
			operators, err := c.operators(nowhere())
			if err == nil {
				err = c.printManifests(operators, c.installing(operators, o))
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

// printManifests prints the objects of an installation, and warnings to the standard
// error.
func (c *command) printManifests(operators []Operator, o manifests.Options) error {
	configs := make([]config.Operator, 0, len(operators))
	for _, each := range operators {
		configs = append(configs, each.Config)
	}
	made, err := manifests.Make(configs, o)
	if err != nil {
		return err
	}
	for _, w := range made.Warnings {
		fmt.Fprintf(c.stderr, "manifests: warning: %s\n", w)
	}
	text, err := made.YAML()
	if err != nil {
		return err
	}
	_, err = c.stdout.Write(text)
	return err
}

// installing returns the options with what the flags leave open.
func (c *command) installing(operators []Operator, o manifests.Options) manifests.Options {
	defaults := &c.program.Defaults
	o.Name = cmp.Or(c.program.Name, operators[0].Config.Name)
	o.Lease = defaults.Lease
	if o.Namespace == "" && o.Name != "" {
		o.Namespace = manifests.DefaultNamespace(o.Name)
	}
	if o.Image == "" {
		o.Image = o.Name + ":latest"
		fmt.Fprintf(c.stderr, "manifests: warning: the image is taken for %s; name it by --image\n", o.Image)
	}
	if c.flags.namespace != "" {
		o.Args = append(o.Args, "--namespace="+c.flags.namespace)
	}
	// The ports of the Deployment are fixed.
	if defaults.MetricsAddress != "" {
		o.Args = append(o.Args, fmt.Sprintf("--metrics-bind-address=:%d", manifests.MetricsPort))
	}
	if defaults.HealthAddress != "" {
		o.Args = append(o.Args, fmt.Sprintf("--health-probe-bind-address=:%d", manifests.HealthPort))
	}
	return o
}
