package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/probe"
	"github.com/roperator/roperator/resource"
)

// defaultShutdownTimeout is how long running passes may go on after a Runner
// was told to stop.
const defaultShutdownTimeout = 30 * time.Second

// Options are what a Runner needs besides the operator's configuration. The
// zero value is usable.
type Options struct {
	// RESTConfig says how to reach the API server. Nil: in-cluster, else the
	// kubeconfig in KUBECONFIG, else ~/.kube/config.
	RESTConfig *rest.Config
	// Logger gets the logs; nil: slog.Default().
	Logger *slog.Logger
	// Metrics gets the operator's metrics; nil: a registry of its own.
	Metrics prometheus.Registerer
	// ShutdownTimeout is how long running passes may go on once the context
	// has ended; 0: 30 s.
	ShutdownTimeout time.Duration
	// Probe is for this module's testkit.
	Probe *probe.Probe
}

// A Runner runs one operator: it watches, calls the handler, and makes the
// cluster as the handler wants it.
type Runner struct {
	cfg     config.Operator
	handler handler.Handler
	opts    Options
	log     *slog.Logger

	mu struct {
		sync.Mutex
		watchers []*watcher
		started  bool
	}
}

// New returns a Runner, or an error that joins every mistake in cfg. It makes
// no request.
func New(cfg config.Operator, h handler.Handler, opts Options) (*Runner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if h == nil {
		return nil, errors.New("runner: the handler is nil")
	}
	if opts.RESTConfig == nil {
		rc, err := loadRESTConfig("", "")
		if err != nil {
			return nil, err
		}
		opts.RESTConfig = rc
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Metrics == nil {
		opts.Metrics = prometheus.NewRegistry()
	}
	if opts.ShutdownTimeout == 0 {
		opts.ShutdownTimeout = defaultShutdownTimeout
	}
	return &Runner{cfg: defaults.Apply(cfg), handler: h, opts: opts, log: opts.Logger.With("controller", cfg.Name)}, nil
}

// Run runs an operator until ctx ends, and returns nil then; otherwise the
// error says why it stopped. Run returns after every goroutine has ended.
func Run(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options) error {
	r, err := New(cfg, h, opts)
	if err != nil {
		return err
	}
	return r.Start(ctx)
}

// Start runs the operator until ctx ends, and returns nil then; otherwise the
// error says why it stopped. It returns after every goroutine has ended. A
// Runner can be started once.
func (r *Runner) Start(ctx context.Context) error {
	r.mu.Lock()
	again := r.mu.started
	r.mu.started = true
	r.mu.Unlock()
	if again {
		return errors.New("runner: started before; make a new one")
	}
	e, err := r.newEngine(ctx)
	if err != nil || e == nil {
		return err
	}
	defer e.events.close()
	if r.opts.Probe != nil {
		r.opts.Probe.Attach(&probed{e})
	}
	return r.run(ctx, e)
}

// Ready returns nil if the operator has started and mirrors every type it
// watches, else what is missing.
func (r *Runner) Ready() error {
	r.mu.Lock()
	watchers := r.mu.watchers
	r.mu.Unlock()
	if watchers == nil {
		return errors.New("runner: not started yet")
	}
	errs := make([]error, 0, len(watchers))
	for _, w := range watchers {
		errs = append(errs, w.ready())
	}
	return errors.Join(errs...)
}

// newEngine connects to the API server; nil without an error if ctx ended.
func (r *Runner) newEngine(ctx context.Context) (*engine, error) {
	rc := rest.CopyConfig(r.opts.RESTConfig)
	if rc.UserAgent == "" {
		rc.UserAgent = r.cfg.Name + "/roperator"
	}
	httpClient, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c, err := newClient(rc, httpClient, r.cfg.Name, r.log)
	if err != nil {
		return nil, err
	}
	types, err := r.discover(ctx, rc, httpClient)
	switch {
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr,nilnil // told to stop: whatever failed, failed for that
	case err != nil:
		return nil, err
	}
	// The sink outlives ctx, so that the last passes' Events are written.
	sink, err := newEventSink(rc, httpClient, r.cfg.Name, r.log)
	if err != nil {
		return nil, err
	}
	e := newEngine(r.cfg, r.handler, types, c, sink, r.log)
	e.history.on = r.opts.Probe != nil
	if e.metrics, err = newMetrics(r.opts.Metrics, r.cfg.Name, e.queue); err != nil {
		sink.close()
		return nil, err
	}
	return e, nil
}

func (r *Runner) discover(ctx context.Context, rc *rest.Config, httpClient *http.Client) (*catalog, error) {
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return discover(ctx, dc, r.cfg, rc.Host)
}

// run starts the watches, and the workers when every type is mirrored.
func (r *Runner) run(outer context.Context, e *engine) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	e.warnNoStatus()
	watchers := e.watchers(stop)
	r.mu.Lock()
	r.mu.watchers = watchers
	r.mu.Unlock()

	var wg sync.WaitGroup
	for _, w := range watchers {
		wg.Go(func() { w.run(ctx) })
	}
	if awaitSynced(ctx, watchers) {
		r.log.InfoContext(ctx, "started", "parent", r.cfg.Parent.String(), "children", len(r.cfg.Children), "parents", len(e.store.allParents()))
		e.work(ctx, r.opts.ShutdownTimeout)
	}
	stop(nil)
	wg.Wait()
	if cause := context.Cause(ctx); outer.Err() == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	r.log.Info("stopped")
	return nil
}

func awaitSynced(ctx context.Context, watchers []*watcher) bool {
	for _, w := range watchers {
		select {
		case <-w.synced:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// watchers returns one watcher per type and namespace.
func (r *engine) watchers(fatal func(error)) []*watcher {
	namespaces := r.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	ours := labels.Set{r.cfg.OwnershipLabel: r.cfg.Name}.String() + "," + r.cfg.TrackingLabel
	var out []*watcher
	for _, k := range r.types.all() {
		selector := ours
		if k == r.types.parent {
			selector = r.cfg.ParentSelector
		}
		for _, ns := range namespaces {
			if !k.namespaced {
				ns = metav1.NamespaceAll
			}
			out = append(out, &watcher{
				kind: k, stream: stream{k.Type, ns}, selector: selector,
				client: r.client, store: r.store, log: r.log,
				changed: r.changed, synced: make(chan struct{}), fatal: fatal,
			})
			if !k.namespaced {
				break
			}
		}
	}
	return out
}

// selects says whether a parent is one of this operator's.
func (r *engine) selects(parent *resource.Resource) bool {
	selector, err := labels.Parse(r.cfg.ParentSelector)
	return err == nil && selector.Matches(labels.Set(parent.Labels()))
}
