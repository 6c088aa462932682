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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// A Runner runs one operator or several: it watches, calls the handler, and
// makes the cluster as the handler wants it.
type Runner struct {
	opts      Options
	log       *slog.Logger
	gatherer  prometheus.Gatherer // of opts.Metrics
	operators []*operator

	mu struct {
		sync.Mutex
		started bool
		lease   *lease // as soon as there is one
	}
}

// An operator is what a Runner was told of one.
type operator struct {
	cfg     config.Operator // with every default filled in
	handler handler.Handler
	opts    *Options
	log     *slog.Logger

	mu struct {
		sync.Mutex
		watchers []*watcher
	}
}

// New returns a Runner, or an error that joins every mistake in cfg. It makes
// no request.
func New(cfg config.Operator, h handler.Handler, opts Options) (*Runner, error) {
	return newRunner(opts, Spec{cfg, h})
}

// Run runs an operator until ctx ends, and returns nil then; otherwise the
// error says why it stopped. Run returns after every goroutine has ended.
func Run(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options) error {
	return RunAll(ctx, opts, Spec{cfg, h})
}

// RunAll is Run for several operators in one process. They share the
// connections to the API server and the rate limit (if RESTConfig sets one),
// the addresses for metrics and health, and the lease, whose name is the first
// operator's by default. Their names must differ; metrics and logs tell them
// apart by it.
//
// An error or a panic of one handler disturbs no other operator. But what
// keeps one of them from starting keeps all: a type that isn't served, or a
// right that is missing.
func RunAll(ctx context.Context, opts Options, specs ...Spec) error {
	r, err := newRunner(opts, specs...)
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
	server, err := r.serve(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	link, err := r.connect()
	if err != nil {
		return err
	}
	if r.elects() {
		if link.lease, err = r.newLease(link); err != nil {
			return err
		}
	}
	engines, err := r.newEngines(ctx, link)
	defer closeSinks(engines)
	if err != nil || engines == nil {
		return err
	}
	if r.opts.Probe != nil {
		r.opts.Probe.Attach(&probed{engines[0]})
	}
	return r.run(ctx, engines, link.lease)
}

// Ready returns nil if the operator has started and mirrors every type it
// watches, else what is missing. A replica that waits for the lease is ready:
// it can take over at once.
func (r *Runner) Ready() error {
	var errs []error
	for _, c := range r.checks() {
		errs = append(errs, c.err)
	}
	return errors.Join(errs...)
}

// A check is one thing that must be so for an operator to be ready.
type check struct {
	name string
	err  error
}

func (r *Runner) checks() []check {
	var checks []check
	for _, o := range r.operators {
		watchers := o.running()
		if watchers == nil {
			checks = append(checks, check{"start/" + o.cfg.Name, errors.New("runner: not started yet")})
		}
		for _, w := range watchers {
			checks = append(checks, check{"informer/" + o.cfg.Name + "/" + w.name(), w.ready()})
		}
	}
	return checks
}

// newEngines connects every operator to the API server; nil without an error
// if ctx ended. Those that were connected are returned also with an error.
func (r *Runner) newEngines(ctx context.Context, l *link) ([]*engine, error) {
	engines, errs := make([]*engine, len(r.operators)), make([]error, len(r.operators))
	var wg sync.WaitGroup
	for i, o := range r.operators {
		wg.Go(func() { engines[i], errs[i] = o.newEngine(ctx, l) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil && ctx.Err() != nil {
		closeSinks(engines)
		return nil, nil //nolint:nilerr,nilnil // told to stop
	}
	return engines, err
}

func closeSinks(engines []*engine) {
	for _, e := range engines {
		if e != nil {
			e.events.close()
		}
	}
}

// newEngine connects to the API server; nil without an error if ctx ended.
func (o *operator) newEngine(ctx context.Context, l *link) (*engine, error) {
	counted := newMetrics()
	httpClient := l.as(o.cfg.Name, counted.api)
	c, err := newClient(l.config, httpClient, o.cfg.Name, o.log)
	if err != nil {
		return nil, err
	}
	types, err := discoverTypes(ctx, l.config, httpClient, o.cfg)
	switch {
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr,nilnil // told to stop: whatever failed, failed for that
	case err != nil:
		return nil, err
	}
	// The sink doesn't end with ctx, so that the last passes' Events are written.
	sink, err := newEventSink(l.config, httpClient, o.cfg.Name, counted.events, o.log)
	if err != nil {
		return nil, err
	}
	e := newEngine(o.cfg, o.handler, types, c, sink, o.log)
	e.history.on = o.opts.Probe != nil
	e.metrics, c.metrics = counted, counted
	e.tracing = newTracing(o.opts.TracerProvider, o.cfg.Name)
	if err := counted.register(o.opts.Metrics, e, l.leading, o.running); err != nil {
		sink.close()
		return nil, err
	}
	return e, nil
}

// running returns the watchers; none before they have been started.
func (o *operator) running() []*watcher {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.watchers
}

func discoverTypes(ctx context.Context, rc *rest.Config, httpClient *http.Client, cfg config.Operator) (*catalog, error) {
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return discover(ctx, dc, cfg, rc.Host)
}

// run starts the watches, and the workers when every type is mirrored and the
// lease is held.
func (r *Runner) run(outer context.Context, engines []*engine, lease *lease) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	var wg sync.WaitGroup
	var all []*watcher
	for i, e := range engines {
		e.warnNoStatus()
		watchers := e.watchers(stop)
		o := r.operators[i]
		o.mu.Lock()
		o.mu.watchers = watchers
		o.mu.Unlock()
		for _, w := range watchers {
			wg.Go(func() { w.run(ctx) })
		}
		all = append(all, watchers...)
	}
	var err error
	if awaitSynced(ctx, all) {
		for _, e := range engines {
			e.log.InfoContext(ctx, "started", "parent", e.cfg.Parent.String(), "children", len(e.cfg.Children), "parents", len(e.store.allParents()))
		}
		err = r.lead(ctx, stop, lease, func(ctx, passes context.Context) {
			if lease == nil || r.refresh(ctx, all) {
				r.work(ctx, passes, engines)
			}
		})
	}
	stop(nil)
	wg.Wait()
	if err != nil {
		return err
	}
	if cause := context.Cause(ctx); outer.Err() == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	for _, o := range r.operators {
		o.log.Info("stopped")
	}
	return nil
}

// work makes the passes of all operators until ctx ends, and cuts short those
// that are still running when passes ends. It returns after the last Event.
func (r *Runner) work(ctx, passes context.Context, engines []*engine) {
	var wg sync.WaitGroup
	for _, e := range engines {
		wg.Go(func() {
			e.work(ctx, passes, r.opts.ShutdownTimeout)
			e.events.close()
		})
	}
	wg.Wait()
}

// refresh brings the stores up to date with what another replica has done while
// it held the lease: a handler must not be shown a parent that it has finalized,
// however far the watches have come. It returns false if ctx ended.
func (r *Runner) refresh(ctx context.Context, watchers []*watcher) bool {
	for _, w := range watchers {
		for err := w.refresh(ctx); err != nil; err = w.refresh(ctx) {
			r.log.WarnContext(ctx, "can't begin to lead yet, retrying", "error", err)
			select {
			case <-ctx.Done():
				return false
			case <-time.After(time.Second):
			}
		}
	}
	return ctx.Err() == nil
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
