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
		o := manifestOptions{replicas: 1}
		fs.Func("install-namespace", "namespace to install the operator in (default: its name with -system)", func(value string) error {
			if msgs := validation.IsDNS1123Label(value); len(msgs) > 0 {
				return errors.New(msgs[0])
			}
			o.namespace = value
			return nil
		})
		fs.StringVar(&o.image, "image", "", "image of the operator (default: its name with :latest)")
		fs.Func("replicas", "how many Pods, of which one leads (default 1)", func(value string) error {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return errors.New("not a number of Pods")
			}
			o.replicas = int(n)
			return nil
		})
		fs.BoolVar(&o.serviceMonitor, "service-monitor", false, "add a Service of the metrics and a ServiceMonitor for the Prometheus Operator")
		return func(_ context.Context, c *command) int {
			operators, err := c.operators(nowhere())
			if err == nil {
				err = printManifests(operators, c.installing(operators, o), c.stdout, c.stderr)
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

// installing returns the options with what the flags leave open.
func (c *command) installing(operators []Operator, o manifestOptions) manifestOptions {
	defaults := &c.program.Defaults
	o.name = cmp.Or(c.program.Name, operators[0].Config.Name)
	o.lease = defaults.Lease
	if o.namespace == "" && o.name != "" {
		o.namespace = defaultInstallNamespace(o.name)
	}
	if o.image == "" {
		o.image = o.name + ":latest"
		fmt.Fprintf(c.stderr, "manifests: warning: the image is taken for %s; name it by --image\n", o.image)
	}
	if c.flags.namespace != "" {
		o.args = append(o.args, "--namespace="+c.flags.namespace)
	}
	// The ports of the Deployment are fixed.
	if defaults.MetricsAddress != "" {
		o.args = append(o.args, fmt.Sprintf("--metrics-bind-address=:%d", metricsPort))
	}
	if defaults.HealthAddress != "" {
		o.args = append(o.args, fmt.Sprintf("--health-probe-bind-address=:%d", healthPort))
	}
	return o
}
