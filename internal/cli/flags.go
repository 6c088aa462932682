package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/shard"
)

// flags holds the values of the flags, of whichever subcommand.
type flags struct {
	installCRDs, allowNarrowedCRDs bool
	defaults                       Defaults
	kubeconfig, context, namespace string
	maxConcurrentSyncs             int
	parentMetrics, shards          int
	dryRun, leaderElect, dev       bool
	leaseNamespace                 string
	metricsAddress, healthAddress  string
	windowAddress                  string
	secure                         secureFlags
	logLevel                       slog.Level
	logFormat                      string
}

// common registers the flags that all subcommands have.
func (f *flags) common(fs *flag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "path of a kubeconfig (default: in-cluster, else $KUBECONFIG, else ~/.kube/config)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig to use (default: its current one)")
	fs.StringVar(&f.namespace, "namespace", "", "restrict the operator to this namespace (default: as configured)")
	if f.defaults.Logger != nil {
		return
	}
	fs.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
}

// check returns what is wrong with the values, or with the arguments after the
// flags, of which there must be none.
func (f *flags) check(rest []string) error {
	switch {
	case len(rest) > 0:
		hint := ""
		if slices.ContainsFunc(subcommands(), func(s subcommand) bool { return s.name == rest[0] }) {
			hint = "; a subcommand is the first argument, before the flags"
		}
		return fmt.Errorf("unknown argument %q%s", rest[0], hint)
	case f.defaults.Logger == nil && f.logFormat != "text" && f.logFormat != "json":
		return fmt.Errorf("--log-format: %q is neither text nor json", f.logFormat)
	case f.maxConcurrentSyncs < 0:
		return fmt.Errorf("--max-concurrent-syncs: %d is negative", f.maxConcurrentSyncs)
	case f.parentMetrics < 0:
		return fmt.Errorf("--parent-metrics: %d is negative", f.parentMetrics)
	}
	if f.namespace != "" {
		if err := complaint(validation.IsDNS1123Label(f.namespace)); err != nil {
			return fmt.Errorf("--namespace: %q: %w", f.namespace, err)
		}
	}
	if f.shards != 0 {
		if err := shard.Validate(f.shards); err != nil {
			return fmt.Errorf("--shards: %w", err)
		}
	}
	return errors.Join(f.secure.check(f), f.checkWindow())
}

// apply returns cfg as the flags change it: it is cfg where they say nothing.
func (f *flags) apply(cfg config.Operator) config.Operator {
	if f.namespace != "" {
		cfg.Namespaces = []string{f.namespace}
	}
	if f.maxConcurrentSyncs > 0 {
		cfg.MaxConcurrentSyncs = f.maxConcurrentSyncs
	}
	cfg.DryRun = cfg.DryRun || f.dryRun
	return cfg
}

// leaderElectUsage returns the help of --leader-elect. namespace is where the program wants
// the Lease; empty: it doesn't say.
func leaderElectUsage(namespace string) string {
	where := `in the Pod's namespace, outside of a Pod in "default"`
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	return "let one of several replicas work at a time, by a Lease " + where
}

// metricsAddress returns the default of the flag.
func (d *Defaults) metricsAddress() string { return cmp.Or(d.MetricsAddress, ":8080") }

// healthAddress returns the default of the flag.
func (d *Defaults) healthAddress() string { return cmp.Or(d.HealthAddress, ":8081") }

// windowAddress returns the default of the flag.
func (d *Defaults) windowAddress() string { return cmp.Or(d.WindowAddress, "0") }
