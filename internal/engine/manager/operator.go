package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/resource"
)

// An operator is what a manager was told of one operator, and what runs of it.
type operator struct {
	cfg     config.Operator // with every default filled in
	handler handler.Handler
	opts    *Options
	log     *slog.Logger

	mu struct {
		sync.Mutex
		engine   *reconcile.Engine
		watchers []*watch.Watcher
	}
}

// began takes note that an engine runs, and its watchers.
func (o *operator) began(e *reconcile.Engine, watchers []*watch.Watcher) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.engine, o.mu.watchers = e, watchers
}

// running returns the watchers; none before they have been started.
func (o *operator) running() []*watch.Watcher {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.watchers
}

// connect makes the operator's engine, for which the API server is asked how it
// serves the types. It returns nil without an error if ctx ended.
func (o *operator) connect(ctx context.Context, l *client.Link) (*reconcile.Engine, error) {
	counted := observe.NewMetrics()
	httpClient := l.As(o.cfg.Name, counted)
	c, err := client.New(l, httpClient, o.cfg.Name, counted, o.log)
	if err != nil {
		return nil, err
	}
	types, err := catalog.Discover(ctx, l.Config, httpClient, o.cfg)
	switch {
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr,nilnil // told to stop: whatever failed, failed for that
	case err != nil:
		return nil, err
	}
	// The sink doesn't end with ctx, so that the last passes' Events are written.
	sink, err := observe.NewEventSink(l.Config, httpClient, o.cfg.Name, counted, o.log)
	if err != nil {
		return nil, err
	}
	e := reconcile.New(reconcile.Config{
		Settings: catalog.NewSettings(o.cfg, o.handler, types), Handler: o.handler, Client: c, Events: sink, Metrics: counted,
		Tracing: observe.NewTracing(o.opts.TracerProvider, o.cfg.Name), Log: o.log, KeepHistory: o.opts.KeepHistory,
	})
	watched := make([]resource.Type, 0, len(types.All()))
	for _, k := range types.All() {
		watched = append(watched, k.Type)
	}
	err = counted.Register(o.opts.Metrics, o.cfg.Name, watched, func() observe.Gauges { return e.Gauges(l.Leading(), o.running()) })
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// connectForRelease makes an engine that can do nothing but release parents. It
// knows the parents' type alone: those of the children may be gone already.
func (o *operator) connectForRelease(ctx context.Context, l *client.Link) (*reconcile.Engine, error) {
	httpClient := l.As(o.cfg.Name, nil)
	c, err := client.New(l, httpClient, o.cfg.Name, nil, o.log)
	if err != nil {
		return nil, err
	}
	types, err := catalog.DiscoverParent(ctx, l.Config, httpClient, o.cfg)
	if err != nil {
		return nil, err
	}
	return reconcile.New(reconcile.Config{Settings: catalog.NewSettings(o.cfg, o.handler, types), Handler: o.handler, Client: c, Log: o.log}), nil
}

// Plan returns what the first operator would do if it ran now: see runner.Plan.
// Its configuration must have DryRun set.
func (m *Manager) Plan(ctx context.Context) ([]plan.Change, error) {
	l, err := client.Connect(m.opts.RESTConfig)
	if err != nil {
		return nil, err
	}
	e, err := m.operators[0].connect(ctx, l)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, fmt.Errorf("plan: %w", context.Cause(ctx))
	}
	defer e.Close()
	return e.PlanAll(ctx)
}

// Release takes the first operator's finalizers off every parent, and tells say
// what became of each that had one. With DryRun it tells what would. It returns
// how many parents there are. One that fails doesn't keep the others from being
// released: the error joins what went wrong.
func (m *Manager) Release(ctx context.Context, say func(text string)) (parents int, err error) {
	l, err := client.Connect(m.opts.RESTConfig)
	if err != nil {
		return 0, err
	}
	o := m.operators[0]
	e, err := o.connectForRelease(ctx, l)
	if err != nil {
		return 0, err
	}
	namespaces := o.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range namespaces {
		seen, err := e.ReleaseAll(ctx, namespace, say)
		parents += seen
		errs = append(errs, err)
	}
	return parents, errors.Join(errs...)
}
