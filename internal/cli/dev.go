package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"log/slog"

	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/manifests"
	"github.com/roperator/roperator/internal/process"
)

// The flag --dev runs the operator on the machine of a developer, in the place of the
// operator that is deployed in the cluster.

const devUsage = "take the Lease of the deployed operator, and give it back in the end; other defaults: --log-level=debug, no metrics, no probes"

// leaseNamespaceUsage is the help of --leader-elect-resource-namespace.
const leaseNamespaceUsage = "namespace of the Lease (default: see --leader-elect; with --dev, outside of a Pod: the program's name with -system)"

// develop sets what --dev means for the other flags that the command line doesn't give. An
// error says which of them contradicts it.
func (f *flags) develop(fs *flag.FlagSet) error {
	if !f.dev {
		return nil
	}
	given := map[string]bool{}
	fs.Visit(func(each *flag.Flag) { given[each.Name] = true })
	switch {
	case f.dryRun:
		return errors.New("--dev and --dry-run contradict each other: a dry run writes nothing, and takes no Lease")
	case given["shards"] && f.shards != 0:
		return errors.New("--dev and --shards contradict each other: the process works on all parents")
	case given["leader-elect"] && !f.leaderElect:
		return errors.New("--dev and --leader-elect=false contradict each other: two operators would write")
	}
	f.leaderElect, f.shards = true, 0
	if !given["log-level"] {
		f.logLevel = slog.LevelDebug
	}
	if !given["metrics-bind-address"] {
		f.metricsAddress = "0"
	}
	if !given["health-probe-bind-address"] {
		f.healthAddress = "0"
	}
	return nil
}

// findLease sets the namespace of the Lease where neither the flags nor the program say
// it: a process outside of a Pod has to find the Lease of those that are deployed.
func (c *command) findLease(operators []Operator, opts *Options) {
	installed := ""
	if name := cmp.Or(c.program.Name, operators[0].Config.Name); name != "" { // otherwise that is refused later
		installed = manifests.DefaultNamespace(name)
	}
	opts.LeaseNamespace = cmp.Or(c.flags.leaseNamespace, c.program.Defaults.Lease.Namespace, process.PodNamespace(), installed)
}

// developing completes the options for --dev, and warns of the cluster that is about to be
// worked on.
func (c *command) developing(ctx context.Context, operators []Operator, opts *Options) {
	c.findLease(operators, opts)
	opts.TakeOver = cmp.Or(process.User(), "somebody") + "@" + cmp.Or(process.Hostname(), "an unknown host")
	kubeContext := "of the program's own"
	if c.readsKubeconfig() {
		kubeContext = client.ContextName(c.flags.kubeconfig, c.flags.context)
	}
	c.log.WarnContext(ctx, "dev: this process takes the place of the deployed operator, and writes to this cluster",
		"context", kubeContext, "server", opts.RESTConfig.Host, "leaseNamespace", opts.LeaseNamespace, "as", opts.TakeOver)
}

// readsKubeconfig says whether the API server is that of a kubeconfig, or of the Pod,
// rather than the program's own.
func (c *command) readsKubeconfig() bool {
	return c.program.Defaults.RESTConfig == nil || c.flags.kubeconfig != "" || c.flags.context != ""
}

// clientLog returns the log that client-go gets. With --dev that is one without client-go's
// messages for its own developers.
func (c *command) clientLog() *slog.Logger {
	if !c.flags.dev {
		return c.log
	}
	return slog.New(atLeast{c.log.Handler(), slog.LevelInfo})
}

// An atLeast is a handler of the records of a level and above.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled says whether records of a level are handled.
func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

// WithAttrs returns a handler with more attributes.
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup returns a handler with a group.
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
