package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
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
	return subcommand{name: "manifests", summary: "print the objects that run the operator in a cluster, as YAML", details: manifestsDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
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
			if o.namespace == "" && c.cfg.Name != "" {
				o.namespace = defaultInstallNamespace(c.cfg.Name)
			}
			if o.image == "" {
				o.image = c.cfg.Name + ":latest"
				fmt.Fprintf(c.stderr, "manifests: warning: the image is taken for %s; name it by --image\n", o.image)
			}
			if f.namespace != "" {
				o.args = append(o.args, "--namespace="+f.namespace)
			}
			if err := printManifests(c.cfg, o, c.stdout, c.stderr); err != nil {
				printErrors(c.stderr, "manifests", err)
				return exitError
			}
			return exitOK
		}
	}}
}
