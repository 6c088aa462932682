package cli

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
)

// Exit codes of all subcommands but plan.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Main is the main function of an operator's program: it does what the command
// line says, and ends the process. SIGTERM and SIGINT end the context of the
// subcommand; a second signal ends the process at once. A subcommand that works in the
// cluster goes on when nobody reads its output any more, as under "| head": see
// subcommand.outlasts.
func (p *Program) Main() {
	if chosen, _, _, err := choose(os.Args[1:]); err == nil && chosen.outlasts {
		signal.Ignore(syscall.SIGPIPE)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	go func() { // ends with the process; after the first signal, the next one ends it
		<-ctx.Done()
		stop()
	}()
	os.Exit(p.Do(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// runSubcommand returns the subcommand that runs the operators.
func runSubcommand() subcommand {
	return subcommand{name: "run", outlasts: true, summary: "run the operator (what is done without a subcommand)", prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		fs.IntVar(&f.maxConcurrentSyncs, "max-concurrent-syncs", 0, "how many parents are synced at once (default: as configured)")
		fs.BoolVar(&f.dryRun, "dry-run", false, "write nothing, log what would be written")
		fs.StringVar(&f.metricsAddress, "metrics-bind-address", f.defaults.metricsAddress(), "where /metrics is served; 0: nowhere")
		fs.StringVar(&f.healthAddress, "health-probe-bind-address", f.defaults.healthAddress(), "where /healthz and /readyz are served; 0: nowhere")
		f.registerWindow(fs)
		fs.BoolVar(&f.leaderElect, "leader-elect", f.defaults.LeaderElect, leaderElectUsage(f.defaults.Lease.Namespace))
		fs.IntVar(&f.shards, "shards", f.defaults.Shards, "let replicas share the parents, as this many shards: a power of two up to 64; 0: one works at a time")
		fs.BoolVar(&f.dev, "dev", false, devUsage)
		fs.StringVar(&f.leaseNamespace, "leader-elect-resource-namespace", "", leaseNamespaceUsage)
		fs.BoolVar(&f.installCRDs, "install-crds", f.defaults.InstallCRDs, "install the operator's CustomResourceDefinitions first, and wait until they are served")
		fs.BoolVar(&f.allowNarrowedCRDs, "allow-narrowed-crds", false, "with --install-crds: install them also where that drops values of stored objects, or puts an older one back")
		fs.IntVar(&f.parentMetrics, "parent-metrics", f.defaults.ParentMetrics, "of how many parents /metrics has metrics of their own at most; 0: of none")
		f.secure.register(fs, f.defaults.MetricsSecure)
		return func(ctx context.Context, c *command) int {
			written := c.bufferLog()
			defer written()
			klog.SetSlogLogger(c.clientLog()) // client-go's log goes the same way
			operators, opts, err := c.reach()
			if err == nil {
				if opts.LeaseNamespace = c.flags.leaseNamespace; c.flags.dev {
					c.developing(ctx, operators, &opts)
				}
				err = c.program.Run(ctx, operators, opts)
			}
			if err != nil {
				c.log.Error("operator failed", "controller", c.names(operators), "error", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// names returns the names of the operators, or that of the program if they aren't
// known.
func (c *command) names(operators []Operator) string {
	if len(operators) == 0 {
		return c.program.name()
	}
	names := make([]string, 0, len(operators))
	for _, o := range operators {
		names = append(names, o.Config.Name)
	}
	return strings.Join(names, ",")
}
