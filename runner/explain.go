package runner

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/cli"
	"github.com/roperator/roperator/internal/engine/explain"
)

// explain carries out the subcommand explain for one operator.
func (p Program) explain(ctx context.Context, o cli.Operator, said cli.Options, parent types.NamespacedName, known explain.Process) (explain.Explanation, error) {
	cfg, opts := o.Config, optionsOf(said)
	cfg.DryRun = true                       // the handler is to know, and nothing is written anyway
	opts.Metrics = prometheus.NewRegistry() // read by nobody
	r, err := New(cfg, o.Handler, opts)
	if err != nil {
		return explain.Explanation{}, err
	}
	return r.manager.Explain(ctx, parent, known)
}
