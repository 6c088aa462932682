package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// Exit codes of Main.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Main is the whole main function of an operator: it reads the command line,
// runs the operator until SIGTERM or SIGINT, and exits with code 0 then, 1 on
// an error, 2 on bad flags. A second signal ends the process at once. The
// first argument may be a subcommand: run (the default), plan, manifests or
// release-finalizers; --help tells of them.
func Main(cfg config.Operator, h handler.Handler) {
	os.Exit(run(cfg, h, os.Args[1:], os.Stdout, os.Stderr))
}

func run(cfg config.Operator, h handler.Handler, args []string, stdout, stderr io.Writer) int {
	c, carryOut, code := parseCommandLine(cfg, h, args, stdout, stderr)
	if carryOut == nil {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() { // ends with the process: from the first signal on, the default holds again
		<-ctx.Done()
		stop()
	}()
	return carryOut(ctx, c)
}

// runSubcommand runs the operator.
func runSubcommand() subcommand {
	return subcommand{name: "run", summary: "run the operator (what is done without a subcommand)", prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		fs.IntVar(&f.maxConcurrentSyncs, "max-concurrent-syncs", 0, "how many parents are synced at once (default: as configured)")
		fs.BoolVar(&f.dryRun, "dry-run", false, "write nothing, log what would be written")
		fs.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "where /metrics is served; 0: nowhere")
		fs.StringVar(&f.healthAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0: nowhere")
		fs.BoolVar(&f.leaderElect, "leader-elect", false, "let one of several replicas work at a time, by a Lease in the operator's own namespace")
		return func(ctx context.Context, c *command) int {
			klog.SetSlogLogger(c.log) // what client-go says goes the same way
			opts, err := c.runOptions()
			if err == nil {
				err = Run(ctx, c.cfg, c.handler, opts)
			}
			if err != nil {
				c.log.Error("operator failed", "controller", c.cfg.Name, "error", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// flags are what the command line may say.
type flags struct {
	kubeconfig, context, namespace string
	maxConcurrentSyncs             int
	dryRun, leaderElect            bool
	metricsAddress, healthAddress  string
	logLevel                       slog.Level
	logFormat                      string
}

// common registers the flags that every subcommand has.
func (f *flags) common(fs *flag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "path of a kubeconfig (default: in-cluster, else $KUBECONFIG, else ~/.kube/config)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig to use (default: its current one)")
	fs.StringVar(&f.namespace, "namespace", "", "restrict the operator to this namespace (default: as configured)")
	fs.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
}

func (f *flags) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unknown argument %q", rest[0])
	case f.logFormat != "text" && f.logFormat != "json":
		return fmt.Errorf("--log-format: %q is neither text nor json", f.logFormat)
	case f.maxConcurrentSyncs < 0:
		return fmt.Errorf("--max-concurrent-syncs: %d is negative", f.maxConcurrentSyncs)
	}
	return nil
}

func (f *flags) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: f.logLevel}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// apply returns cfg as the flags change it.
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

// loadRESTConfig finds the API server: by the kubeconfig named, else by the
// Pod that this process runs in, else by KUBECONFIG or ~/.kube/config. The
// namespace is the Pod's or the kubeconfig's.
func loadRESTConfig(kubeconfig, kubeContext string) (rc *rest.Config, namespace string, err error) {
	if kubeconfig == "" && kubeContext == "" {
		if rc, err := rest.InClusterConfig(); err == nil {
			return rc, podNamespace(), nil
		} else if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("in-cluster configuration: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	if rc, err = config.ClientConfig(); err == nil {
		namespace, _, err = config.Namespace()
	}
	if err != nil {
		tried := kubeconfig
		if tried == "" {
			tried = fmt.Sprint(rules.Precedence)
		}
		return nil, "", fmt.Errorf("kubeconfig: tried %s: %w; name one by --kubeconfig or KUBECONFIG", tried, err)
	}
	return rc, namespace, nil
}
