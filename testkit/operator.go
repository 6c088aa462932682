package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	windowpage "github.com/roperator/roperator/internal/window"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
)

const (
	// These only bound a hang: either takes an idle machine a second or less.
	readyTimeout     = 5 * time.Minute
	operatorStopTime = 2 * time.Minute

	dialTimeout = 30 * time.Second // as client-go's
)

// An operator is one run of an operator.
type operator struct {
	manager *manager.Manager
	cancel  context.CancelFunc
	done    chan struct{} // closed when Start has returned; err is set then
	err     error

	// Known to the test's goroutine only.
	told      bool // that it ended of itself
	loopsTold int  // how many of the engine's loops Settle has returned
}

// startOperator runs the operator until its stop. It wires the engine as the
// runner does, and keeps hold of it.
//
// within selects the parents that are the Kit's, empty: all that the operator may see.
func startOperator(cfg config.Operator, h handler.Handler, within string, opts runner.Options) (*operator, error) {
	if opts.Sharding.Shards != 0 {
		return nil, errors.New("testkit: Options.Runner.Sharding: a Kit looks into one engine, and each shard has its own; leave it out, and test replicas that share parents by package runner")
	}
	op := &operator{done: make(chan struct{})}
	var err error
	if op.manager, err = manager.New(managerOptions(opts), manager.Spec{Config: cfg, Handler: h, DepartedWithin: within}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	op.cancel = cancel
	go func() {
		defer close(op.done)
		op.err = op.manager.Start(ctx)
	}()
	return op, nil
}

// managerOptions returns a runner's options as the engine takes them, with its
// history kept.
func managerOptions(opts runner.Options) manager.Options {
	out := manager.Options{
		RESTConfig: opts.RESTConfig, Logger: opts.Logger, Metrics: observe.NewRegistry(opts.Metrics), TracerProvider: opts.TracerProvider,
		MetricsAddress: opts.MetricsAddress, HealthAddress: opts.HealthAddress, ShutdownTimeout: opts.ShutdownTimeout, KeepHistory: true, NamespacesExist: true,
		ParentMetrics: opts.ParentMetrics, WindowAddress: opts.WindowAddress, Elected: opts.Elected, InstallCRDs: opts.InstallCRDs, ReadOnly: opts.ReadOnly,
		NewWindow: func(w *manager.Window) manager.WindowPage {
			return windowpage.New(w, windowpage.Options{Loopback: w.Loopback, Protect: w.Protect, Log: w.Log})
		},
	}
	if opts.MetricsSecure != nil {
		out.MetricsSecure = new(access.Security(*opts.MetricsSecure))
	}
	if opts.LeaderElection != nil {
		election := lead.Config(*opts.LeaderElection)
		out.LeaderElection = &election
	}
	return out
}

// runnerOptions returns the options for a run: the user's, with the Kit's
// eyes and ears added.
func (k *Kit) runnerOptions() runner.Options {
	opts := k.opts.Runner
	if opts.RESTConfig == nil {
		opts.RESTConfig = k.cluster.RESTConfig()
	} else {
		opts.RESTConfig = rest.CopyConfig(opts.RESTConfig)
	}
	if opts.RESTConfig.Dial == nil {
		// Operators that share a connection, as client-go's of one process do,
		// come to the limit of streams that an API server sets, with their
		// watches; requests of any of them may be refused then.
		opts.RESTConfig.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	opts.RESTConfig.Wrap(k.writes.wrap)
	opts.RESTConfig.Wrap(validateFields(k.fieldValidation()))
	if opts.Logger == nil {
		opts.Logger = slog.New(stackHandler{slog.NewTextHandler(k.log, &slog.HandlerOptions{Level: slog.LevelDebug}), k.log})
	}
	return opts
}

// fieldValidation returns what the API server is told about unknown fields.
func (k *Kit) fieldValidation() string { return cmp.Or(k.opts.FieldValidation, "Strict") }

// discardLogger returns a logger for what nobody wants to read.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// awaitReady returns when the operator works; an error that is errAPIServerBusy
// if it couldn't start for want of an answer in time.
func (o *operator) awaitReady(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval/5, true, func(context.Context) (bool, error) {
		return o.manager.Ready() == nil && o.manager.Engine() != nil, o.ended()
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.Join(fmt.Errorf("not ready after %v", readyTimeout), o.manager.Ready())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", errAPIServerBusy, err)
	}
	return err
}

// errAPIServerBusy is for an API server whose machine has other things to do.
var errAPIServerBusy = errors.New("the API server is busy")

// ended returns why the operator isn't running, nil while it is.
func (o *operator) ended() error {
	select {
	case <-o.done:
	default:
		return nil
	}
	if o.err == nil {
		return errors.New("stopped")
	}
	o.told = true
	return fmt.Errorf("stopped: %w", o.err)
}

// stop returns when the operator has ended, with the reason if it had ended of
// itself. The reason is told once.
func (o *operator) stop() error {
	o.cancel()
	limit := time.NewTimer(operatorStopTime)
	defer limit.Stop()
	select {
	case <-o.done:
		if o.told {
			return nil
		}
		o.told = true
		return o.err
	case <-limit.C:
		return fmt.Errorf("still running %v after its context ended", operatorStopTime)
	}
}

// A testLog passes on what is written until the test has ended: a test's log
// must not be written to after that.
type testLog struct {
	out io.Writer
	mu  struct {
		sync.Mutex
		closed bool
	}
}

// Write never fails.
func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return len(p), nil
	}
	return l.out.Write(p)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
}

// calls counts the calls of a handler for each parent.
type calls struct {
	over   func() bool                // the test's own code has ended, and cleans up
	onSync func(*handler.SyncRequest) // is told of each call of Sync as it begins; nil: nobody is

	mu struct {
		sync.Mutex
		syncs, finalizes map[types.NamespacedName]int
	}
}

func newCalls(over func() bool) *calls {
	c := &calls{over: over}
	c.mu.syncs, c.mu.finalizes = map[types.NamespacedName]int{}, map[types.NamespacedName]int{}
	return c
}

// wrap returns h, counted.
func (c *calls) wrap(h handler.Handler) handler.Handler {
	if h == nil {
		return nil // the runner's to complain about
	}
	return countedHandler{inner: h, calls: c}
}

func (c *calls) count(of map[types.NamespacedName]int, req *handler.SyncRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of[req.Parent.Key()]++
}

func (c *calls) get(of map[types.NamespacedName]int, key types.NamespacedName) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return of[key]
}

// A countedHandler counts the calls of a handler as they begin. What else the
// engine asks a handler, it passes on.
type countedHandler struct {
	inner handler.Handler
	calls *calls
}

func (h countedHandler) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	h.calls.count(h.calls.mu.syncs, req)
	if h.calls.onSync != nil {
		h.calls.onSync(req)
	}
	resp, err := h.inner.Sync(ctx, req)
	return resp, h.calls.noteLate(err)
}

func (h countedHandler) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	h.calls.count(h.calls.mu.finalizes, req)
	resp, err := h.inner.Finalize(ctx, req)
	return resp, h.calls.noteLate(err)
}

func (h countedHandler) Finalizes() bool { return handler.Finalizes(h.inner) }

func (h countedHandler) Relates() bool { return handler.Relates(h.inner) }

func (h countedHandler) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return handler.Relate(h.inner, parent)
}
