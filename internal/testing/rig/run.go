package rig

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
)

// NewOne returns a manager of one operator, which doesn't run yet.
func NewOne(cfg config.Operator, h handler.Handler, opts manager.Options) (*manager.Manager, error) {
	return manager.New(opts, manager.Spec{Config: cfg, Handler: h})
}

// RunAll runs operators until ctx ends, and returns what Manager.Start does.
func RunAll(ctx context.Context, opts manager.Options, specs ...manager.Spec) error {
	m, err := manager.New(opts, specs...)
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// RunOne is RunAll for one operator.
func RunOne(ctx context.Context, cfg config.Operator, h handler.Handler, opts manager.Options) error {
	return RunAll(ctx, opts, manager.Spec{Config: cfg, Handler: h})
}

// Plan returns what an operator would change on a server.
func Plan(server *fakeapi.Server, cfg config.Operator, h handler.Handler) ([]plan.Change, error) {
	return PlanWith(server, cfg, h, PlanOptions{})
}

// PlanOptions are what a plan may have besides: see manager.Manager.PlanFor.
type PlanOptions struct {
	ReadOnly bool
	Edited   []plan.Edited // nil: all parents are planned, as they are
	Log      *slog.Logger  // nil: nothing is logged
}

// PlanWith is Plan with options.
func PlanWith(server *fakeapi.Server, cfg config.Operator, h handler.Handler, opts PlanOptions) ([]plan.Change, error) {
	cfg.DryRun = true
	m, err := NewOne(cfg, h, manager.Options{RESTConfig: server.RESTConfig(), Logger: cmp.Or(opts.Log, sample.DiscardLog()), ReadOnly: opts.ReadOnly})
	switch {
	case err != nil:
		return nil, err
	case opts.Edited != nil:
		return m.PlanFor(context.Background(), opts.Edited)
	}
	return m.Plan(context.Background())
}
