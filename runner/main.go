package runner

import (
	"context"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/cli"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/plan"
)

// Main is the whole main function of an operator: it reads the command line,
// runs the operator until SIGTERM or SIGINT, and exits with code 0 then, 1 on
// an error, 2 on bad flags. A second signal ends the process at once. The
// first argument may be a subcommand: run (the default), plan, manifests or
// release-finalizers; --help explains them.
//
// The log goes to the standard error, and so do client-go's and those of the
// packages log and slog, unless they were given another writer or handler. If nobody
// reads it, lines are dropped instead of holding up the operator.
func Main(cfg config.Operator, h handler.Handler) { program(cfg, h).Main() }

// program returns an operator's program with the functions of this package.
func program(cfg config.Operator, h handler.Handler) *cli.Program {
	return &cli.Program{
		Config: cfg,
		Run: func(ctx context.Context, cfg config.Operator, said cli.Options) error {
			opts := optionsOf(said)
			if said.LeaderElect {
				opts.LeaderElection = &LeaderElection{Namespace: said.Namespace}
			}
			made := opts.manager()
			made.LogLinesDropped = said.LogLinesDropped
			m, err := manager.New(made, manager.Spec{Config: cfg, Handler: h})
			if err != nil {
				return err
			}
			return m.Start(ctx)
		},
		Plan: func(ctx context.Context, cfg config.Operator, said cli.Options) ([]plan.Change, error) {
			return foresee(ctx, cfg, h, optionsOf(said))
		},
		Release: func(ctx context.Context, cfg config.Operator, said cli.Options, say func(string)) (int, error) {
			r, err := New(cfg, handler.SyncFunc(nil), optionsOf(said))
			if err != nil {
				return 0, err
			}
			return r.manager.Release(ctx, say)
		},
	}
}

// optionsOf returns the options that the command line says. Leader election isn't
// among them, since only Run has one.
func optionsOf(said cli.Options) Options {
	return Options{RESTConfig: said.RESTConfig, Logger: said.Logger, MetricsAddress: said.MetricsAddress, HealthAddress: said.HealthAddress}
}
