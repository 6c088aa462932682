package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/probe"
)

// defaultShutdownTimeout is how long running passes may go on after a Runner
// was told to stop.
const defaultShutdownTimeout = 30 * time.Second

// Options are what a Runner needs besides the operator's configuration. The
// zero value is usable.
type Options struct {
	// RESTConfig says how to reach the API server. Nil: in-cluster, else the
	// kubeconfig in KUBECONFIG, else ~/.kube/config. Requests have no
	// client-side rate limit unless it sets one.
	RESTConfig *rest.Config
	// Logger gets the logs; nil: slog.Default().
	Logger *slog.Logger
	// Metrics gets the operator's metrics; nil: a registry of its own, which
	// has Go's and the process's metrics as well.
	Metrics prometheus.Registerer
	// TracerProvider gets a span for each pass, with spans below it for the
	// handler and each write; nil: none are made.
	TracerProvider trace.TracerProvider
	// LeaderElection makes replicas take turns: only the one that holds the
	// lease calls handlers and writes. Nil: there are no replicas. With
	// DryRun there is no election, since a lease would be written.
	LeaderElection *LeaderElection
	// MetricsAddress is where /metrics is served, HealthAddress where /healthz
	// and /readyz are, as in ":8080"; they may be the same. Empty: nowhere.
	// What is served is neither encrypted nor protected. MetricsAddress
	// demands that Metrics, if set, is a prometheus.Gatherer too.
	MetricsAddress, HealthAddress string
	// ShutdownTimeout is how long running passes may go on once the context
	// has ended; 0: 30 s.
	ShutdownTimeout time.Duration
	// Probe is for this module's testkit.
	Probe *probe.Probe
}

// A Spec is one of several operators of a process.
type Spec struct {
	Config  config.Operator
	Handler handler.Handler
}

func newRunner(opts Options, specs ...Spec) (*Runner, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.ShutdownTimeout == 0 {
		opts.ShutdownTimeout = defaultShutdownTimeout
	}
	r := &Runner{opts: opts, log: opts.Logger}
	if err := r.addOperators(specs); err != nil {
		return nil, err
	}
	if err := r.setMetrics(); err != nil {
		return nil, err
	}
	if err := r.opts.LeaderElection.validate(); err != nil {
		return nil, err
	}
	if r.opts.Probe != nil {
		planner, err := r.operators[0].offlinePlanner()
		if err != nil {
			return nil, err
		}
		r.opts.Probe.AttachPlanner(planner)
	}
	if r.opts.RESTConfig == nil {
		rc, _, err := loadRESTConfig("", "")
		if err != nil {
			return nil, err
		}
		r.opts.RESTConfig = rc
	}
	return r, nil
}

// addOperators joins every mistake in the specs.
func (r *Runner) addOperators(specs []Spec) error {
	if len(specs) == 0 {
		return errors.New("runner: there is no operator to run")
	}
	var errs []error
	names := map[string]bool{}
	for _, s := range specs {
		switch err := s.Config.Validate(); {
		case err != nil:
			errs = append(errs, err)
			continue
		case s.Handler == nil:
			errs = append(errs, fmt.Errorf("runner: the handler of operator %q is nil", s.Config.Name))
			continue
		case names[s.Config.Name]:
			errs = append(errs, fmt.Errorf("runner: two operators have the name %q", s.Config.Name))
			continue
		}
		names[s.Config.Name] = true
		r.operators = append(r.operators, &operator{
			cfg: defaults.Apply(s.Config), handler: s.Handler, opts: &r.opts, log: r.log.With("controller", s.Config.Name),
		})
	}
	return errors.Join(errs...)
}

func (r *Runner) setMetrics() error {
	if r.opts.Metrics == nil {
		own := prometheus.NewRegistry()
		own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		r.opts.Metrics, r.gatherer = own, own
		return nil
	}
	r.gatherer, _ = r.opts.Metrics.(prometheus.Gatherer)
	if r.gatherer == nil && r.opts.MetricsAddress != "" {
		return fmt.Errorf("runner: MetricsAddress is set, but Metrics, a %T, can't be read: use a *prometheus.Registry, or serve the metrics yourself", r.opts.Metrics)
	}
	return nil
}
