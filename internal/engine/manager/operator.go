package manager

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
)

// An operator is one operator of a manager: its configuration and, once it has
// begun, its engine.
type operator struct {
	cfg     config.Operator // with every default filled in
	handler handler.Handler
	opts    *Options // the manager's
	log     *slog.Logger

	shard shard.Shard      // whose parents are the operator's; the zero value: all are
	taken time.Time        // when the shard was
	slots *schedule.Slots  // see reconcile.Config; nil: there is one engine
	kept  *journal.Journal // nil: each engine has its own, if it has one

	departedWithin string         // see Spec
	tap            *recording.Tap // of handler; nil: there is no window

	mu struct {
		sync.Mutex
		engine     *reconcile.Engine // nil until the watchers start
		since      time.Time         // when they did
		unregister func()            // takes the metrics out of the registry; nil: they aren't in it
	}
}

// registered notes how to take the operator's metrics out of the registry.
func (o *operator) registered(unregister func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.unregister = unregister
}

// unregister takes the operator's metrics out of the registry. It does nothing if they
// aren't in it.
func (o *operator) unregister() {
	o.mu.Lock()
	unregister := o.mu.unregister
	o.mu.unregister = nil
	o.mu.Unlock()
	if unregister != nil {
		unregister()
	}
}

// began notes the engine, whose watchers are about to run.
func (o *operator) began(e *reconcile.Engine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.engine, o.mu.since = e, time.Now()
}

// begunAt returns when the watchers of the engine started.
func (o *operator) begunAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.since
}

// begun returns the engine, nil before began.
func (o *operator) begun() *reconcile.Engine {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.engine
}

// connect makes the operator's engine. It asks the API server how the types are
// served and which schemas they have, and registers the metrics, which the caller must
// unregister in the end. It returns nil without an error if ctx has ended.
func (o *operator) connect(ctx context.Context, l *client.Link) (*reconcile.Engine, error) {
	counted := observe.NewMetrics()
	counted.OfParents(o.parentMetrics())
	httpClient := l.As(o.cfg.Name, counted)
	c, err := client.New(l, httpClient, o.cfg.Name, counted, o.log)
	if err != nil {
		return nil, err
	}
	if o.opts.ReadOnly {
		c.ReadOnly()
	}
	if err := c.Divide(o.cfg.Parent, o.shard); err != nil {
		return nil, err
	}
	finder, err := catalog.NewFinder(l.Config, httpClient)
	if err != nil {
		return nil, err
	}
	if o.opts.BuiltIn != nil {
		finder.BuiltIn = o.opts.BuiltIn
	}
	types, err := o.discover(ctx, finder)
	switch {
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr // told to stop; an error is only its consequence
	case err != nil:
		return nil, err
	}
	e, err := o.newEngine(l, httpClient, c, counted, finder, types)
	if err != nil {
		return nil, err
	}
	e.ReadSchemas(ctx)
	if err := o.register(counted, e, l.Leading); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// newEngine makes the engine of an operator whose types are known.
func (o *operator) newEngine(l *client.Link, httpClient *http.Client, c *client.Client, counted *observe.Metrics, finder *catalog.Finder, types *catalog.Catalog) (*reconcile.Engine, error) {
	schemas, err := catalog.NewSchemas(l.Config, httpClient)
	if err != nil {
		return nil, err
	}
	// The sink ends by the engine's Close and not with ctx, so that the Events of
	// the last passes are written.
	sink, err := observe.NewEventSink(l.Config, httpClient, o.cfg.Name, counted, o.log)
	if err != nil {
		return nil, err
	}
	var related *client.Client
	if len(types.Related) > 0 {
		if related, err = client.New(l, httpClient, o.cfg.Name, counted, o.log); err != nil {
			return nil, err
		}
		related.DropHeldFields()
	}
	kept := o.kept
	if kept == nil && o.opts.keepsJournal() {
		kept = journal.New()
	}
	return reconcile.New(reconcile.Config{
		Journal:  kept,
		Settings: catalog.NewSettings(o.cfg, o.handler, types).OfShard(o.shard), Slots: o.slots, Handler: o.handler, Client: c, Events: sink, Metrics: counted,
		Tracing: observe.NewTracing(o.opts.TracerProvider, o.cfg.Name), Log: o.log, Schemas: schemas, DepartedWithin: o.departedWithin, KeepHistory: o.opts.KeepHistory,
		RelatedClient: related, Finder: finder, FinalizeOnly: o.opts.FinalizeOnly, Jitter: o.opts.Jitter,
	}), nil
}

// register registers the metrics of an engine.
func (o *operator) register(counted *observe.Metrics, e *reconcile.Engine, leading func() bool) error {
	types := e.Types
	watched := make([]resource.Type, 0, len(types.All()))
	for _, k := range slices.Concat(types.All(), types.Related) {
		if !slices.Contains(watched, k.Type) {
			watched = append(watched, k.Type)
		}
	}
	unregister, err := counted.Register(o.opts.Metrics, o.cfg.Name, o.shardName(), watched, func() observe.Gauges {
		values := e.Gauges(leading())
		if o.opts.LogLinesDropped != nil {
			values.LogLinesDropped = o.opts.LogLinesDropped()
		}
		return values
	})
	if err != nil {
		return err
	}
	o.registered(unregister)
	return nil
}
