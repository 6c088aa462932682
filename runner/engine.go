package runner

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/probe"
	"github.com/roperator/roperator/resource"
)

// settings are what decides about a pass and never changes.
type settings struct {
	cfg       config.Operator // with every default filled in
	types     *catalog
	mark      string // annotation on children: see mark
	paused    string // annotation on parents that stops Sync
	finalizer string
	finalizes bool            // there is something to finalize
	selector  labels.Selector // of the parents; nil: every one
}

// An engine is a running operator: everything that its passes share.
type engine struct {
	*settings
	handler handler.Handler
	client  *client
	store   *resourceMap
	queue   *scheduler
	memory  *memory
	loops   *loopDetector
	events  *eventSink
	history *history
	metrics *metrics
	tracing *tracing      // nil: no spans are made
	slots   chan struct{} // one for each write under way
	listing chan struct{} // who is in listParents
	log     *slog.Logger
}

func newEngine(cfg config.Operator, h handler.Handler, types *catalog, c *client, sink *eventSink, log *slog.Logger) *engine {
	e := &engine{
		settings: newSettings(cfg, h, types),
		handler:  h,
		client:   c,
		store:    newResourceMap(cfg.Parent, cfg.TrackingLabel),
		queue:    newScheduler(cfg.MaxErrorBackoff, nil),
		memory:   newMemory(),
		loops:    newLoopDetector(5, time.Minute),
		events:   sink,
		history:  &history{},
		slots:    make(chan struct{}, maxWrites),
		listing:  make(chan struct{}, 1),
		log:      log,
	}
	e.store.keepDeparted = cfg.ParentSelector != ""
	return e
}

func newSettings(cfg config.Operator, h handler.Handler, types *catalog) *settings {
	s := &settings{
		cfg:       cfg,
		types:     types,
		mark:      cfg.Domain + "/applied",
		paused:    cfg.Domain + "/paused",
		finalizer: cfg.Domain + "/" + cfg.Name,
		finalizes: finalizes(cfg.Finalizer, h),
	}
	if cfg.ParentSelector != "" {
		s.selector = parsedSelector(cfg.ParentSelector)
	}
	return s
}

// parsedSelector returns a label selector; one that isn't valid, which
// config.Operator.Validate refuses, selects nothing.
func parsedSelector(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// finalizes says whether a handler has something to finalize. Handlers that
// can tell do so; any other type has.
func finalizes(policy config.FinalizerPolicy, h handler.Handler) bool {
	switch policy {
	case config.FinalizerAlways:
		return true
	case config.FinalizerNever:
		return false
	}
	return handler.Finalizes(h)
}

// changed schedules the parents that a new state concerns.
func (r *engine) changed(c change, p priority, why trigger) {
	for _, uid := range c.Parents {
		r.queue.add(uid, p, why)
	}
	for _, uid := range c.Woken {
		r.queue.add(uid, fresh, why)
	}
}

// work makes passes until ctx ends, and returns when the running ones have
// ended too: they get shutdownTimeout for it, unless their own context, passes,
// ends before.
func (r *engine) work(ctx, passes context.Context, shutdownTimeout time.Duration) {
	passCtx, cancel := context.WithCancel(passes)
	defer cancel()
	var workers, killer sync.WaitGroup
	for range r.cfg.MaxConcurrentSyncs {
		workers.Go(func() {
			for {
				d, ok := r.queue.next(ctx)
				if !ok {
					return
				}
				r.queue.done(d.UID, r.sync(passCtx, d))
			}
		})
	}
	done := make(chan struct{})
	killer.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		r.queue.close()
		timer := time.NewTimer(shutdownTimeout)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			r.log.Warn("running passes didn't end within the shutdown timeout", "timeout", shutdownTimeout)
			cancel()
		}
	})
	workers.Wait()
	close(done)
	killer.Wait()
}

// A history holds the newest errors of each parent, and the conflict loops,
// for tests.
type history struct {
	on bool
	mu struct {
		sync.Mutex
		errors map[types.NamespacedName][]error
		loops  []probe.Loop
	}
}

const maxHistory = 100

func (h *history) add(parent types.NamespacedName, err error) {
	if !h.on {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.errors == nil {
		h.mu.errors = map[types.NamespacedName][]error{}
	}
	errs := append(h.mu.errors[parent], err)
	if len(errs) > maxHistory {
		errs = errs[1:]
	}
	h.mu.errors[parent] = errs
}

// foundLoop notes a conflict loop.
func (r *engine) foundLoop(parent *resource.Resource, key loopKey, found *conflictLoop) {
	if !r.history.on {
		return
	}
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	r.history.mu.loops = append(r.history.mu.loops, probe.Loop{
		Parent: parent.Key(), Type: key.Type, Object: key.Object, Path: found.Path, Values: found.Values,
	})
}

// A probed engine answers the questions of a test.
type probed struct{ *engine }

func (p *probed) Activity() probe.Activity {
	running, due, passes := p.queue.activity()
	return probe.Activity{Running: running, Due: due, Passes: passes, Events: int(p.events.waiting.Load())}
}

func (p *probed) Observed(t resource.Type, key types.NamespacedName) (*resource.Resource, bool) {
	return p.store.object(objectRef{t, key})
}

func (p *probed) Snapshot(parent types.NamespacedName) (*handler.SyncRequest, bool) {
	held, ok := p.store.object(objectRef{p.cfg.Parent, parent})
	if !ok {
		return nil, false
	}
	return p.engine.snapshot(held.UID())
}

func (p *probed) Compare(live *resource.Resource, desired any) ([]probe.Difference, error) {
	want, err := encode.Map(desired)
	if err != nil {
		return nil, err
	}
	return p.types.differences(live.Type(), live.Unstructured().Object, want), nil
}

// differences lists the fields in which an object doesn't satisfy a desired
// one, for tests. A status counts, though no desired child can have one.
func (c *catalog) differences(t resource.Type, live, want map[string]any) []probe.Difference {
	spellOut(t, listkeys.For(t), want)
	compared := comparison{}
	if k := c.byType[t]; k != nil {
		compared.schema = k.comparison.schema
	}
	var out []probe.Difference
	for _, d := range compared.compare(live, want, nil) {
		out = append(out, probe.Difference{Path: d.Path, Live: d.Live, Desired: d.Desired})
	}
	if status, ok := want["status"].(map[string]any); ok {
		was := live["status"]
		for _, d := range compared.compare(map[string]any{"spec": was}, map[string]any{"spec": status}, nil) {
			out = append(out, probe.Difference{Path: "status" + strings.TrimPrefix(d.Path, "spec"), Live: d.Live, Desired: d.Desired})
		}
	}
	return out
}

func (p *probed) Errors(parent types.NamespacedName) []error {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	return append([]error(nil), p.history.mu.errors[parent]...)
}

func (p *probed) Loops() []probe.Loop {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	return append([]probe.Loop(nil), p.history.mu.loops...)
}
