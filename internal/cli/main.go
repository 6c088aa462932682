package cli

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
)

// Exit codes of all subcommands but plan.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// A Program is an operator, and the functions that carry out its subcommands. The
// functions get the configuration as the flags change it.
type Program struct {
	Config config.Operator
	// Run runs the operator until ctx ends, and returns nil then.
	Run func(ctx context.Context, cfg config.Operator, opts Options) error
	// Plan returns what the operator would change. There may be changes beside an
	// error.
	Plan func(ctx context.Context, cfg config.Operator, opts Options) ([]plan.Change, error)
	// Release takes the operator's finalizers off every parent. It calls say with a
	// line for each parent that had one, and returns how many parents there are.
	Release func(ctx context.Context, cfg config.Operator, opts Options, say func(text string)) (parents int, err error)
}

// Options are what the command line says besides the configuration.
type Options struct {
	RESTConfig *rest.Config // how to reach the API server; never nil
	Namespace  string       // of the Pod, or of the kubeconfig's context
	Logger     *slog.Logger // never nil

	// The other fields are zero for every subcommand but run.

	MetricsAddress, HealthAddress string // empty: nothing is served
	LeaderElect                   bool   // whether replicas take turns
	// LogLinesDropped returns how many lines of the log were dropped; nil: none are.
	LogLinesDropped func() uint64
}

// Main is the main function of an operator's program: it does what the command
// line says, and ends the process. SIGTERM and SIGINT end the context of the
// subcommand; a second signal ends the process at once.
func (p *Program) Main() {
	os.Exit(p.Do(os.Args[1:], os.Stdout, os.Stderr))
}

// Do does what the arguments say, and returns the exit code. args lacks the name of
// the program.
func (p *Program) Do(args []string, stdout, stderr io.Writer) int {
	c, do, code := p.parse(args, stdout, stderr)
	if do == nil {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() { // ends with ctx; after the first signal, the next one ends the process
		<-ctx.Done()
		stop()
	}()
	return do(ctx, c)
}

// runSubcommand returns the subcommand that runs the operator.
func runSubcommand() subcommand {
	return subcommand{name: "run", summary: "run the operator (what is done without a subcommand)", prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		fs.IntVar(&f.maxConcurrentSyncs, "max-concurrent-syncs", 0, "how many parents are synced at once (default: as configured)")
		fs.BoolVar(&f.dryRun, "dry-run", false, "write nothing, log what would be written")
		fs.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "where /metrics is served; 0: nowhere")
		fs.StringVar(&f.healthAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0: nowhere")
		fs.BoolVar(&f.leaderElect, "leader-elect", false, "let one of several replicas work at a time, by a Lease in the operator's own namespace")
		return func(ctx context.Context, c *command) int {
			written := c.bufferLog()
			defer written()
			klog.SetSlogLogger(c.log) // client-go's log goes the same way
			opts, err := c.options()
			if err == nil {
				err = c.program.Run(ctx, c.cfg, opts)
			}
			if err != nil {
				c.log.Error("operator failed", "controller", c.cfg.Name, "error", err)
				return exitError
			}
			return exitOK
		}
	}}
}
