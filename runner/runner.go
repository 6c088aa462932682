package runner

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
)

// A Runner runs one operator or several: it watches, calls the handler, and
// makes the cluster as the handler wants it.
type Runner struct {
	manager *manager.Manager
	// awaited says that a manager of controller-runtime will start the Runner once it
	// leads, and hasn't yet.
	awaited atomic.Bool
}

// New returns a Runner, or an error that joins every mistake in cfg. It makes
// no request.
func New(cfg config.Operator, h handler.Handler, opts Options) (*Runner, error) {
	return newRunner(opts, Spec{cfg, h})
}

// newRunner is New for several operators.
func newRunner(opts Options, specs ...Spec) (*Runner, error) {
	if opts.ReadOnly {
		return nil, errors.New("runner: Options: ReadOnly is for Plan and PlanFor; set DryRun of config.Operator to run without writing")
	}
	each := make([]manager.Spec, 0, len(specs))
	for _, s := range specs {
		each = append(each, manager.Spec{Config: s.Config, Handler: s.Handler})
	}
	m, err := manager.New(opts.manager(), each...)
	if err != nil {
		return nil, err
	}
	return &Runner{manager: m}, nil
}

// Run runs an operator until ctx ends, and returns nil then; otherwise the
// error says why the operator stopped. Run returns after every goroutine has ended.
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
// error says why the operator stopped. Start returns after every goroutine has
// ended. A Runner can be started once.
func (r *Runner) Start(ctx context.Context) error {
	r.awaited.Store(false)
	return r.manager.Start(ctx)
}

// Ready returns nil if the operator has started, mirrors every type it
// watches, and has no pass that has been under way for ten minutes or longer;
// else what is missing. A replica that waits for the lease is ready: it can
// take over at once. So is a Runner that has joined a manager which hasn't started it
// yet, since another replica's leads: see NeedLeaderElection.
func (r *Runner) Ready() error {
	if r.awaited.Load() {
		return nil
	}
	return r.manager.Ready()
}

// Healthy returns nil unless the process should be restarted; else why: the lease is
// lost, or a call of a handler doesn't heed the end of its context when the operator
// stops. It is what /healthz says.
func (r *Runner) Healthy() error { return r.manager.Healthy() }

// NeedLeaderElection is called by a manager of controller-runtime that the Runner
// joins, and says when the manager shall start it: at once if Options have
// LeaderElection or Elected, else only once the manager leads.
func (r *Runner) NeedLeaderElection() bool {
	if r.manager.HasElection() {
		return false
	}
	r.awaited.Store(true)
	return true
}
