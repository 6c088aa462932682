package reconcile

import (
	"context"

	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
)

// startSpan begins the span of the pass; nil if no spans are made.
func (p *pass) startSpan(ctx context.Context, d schedule.Due) (context.Context, *observe.Span) {
	if p.tracing == nil {
		return ctx, nil
	}
	method := observe.MethodSync
	if p.parent.IsDeleting() {
		method = observe.MethodFinalize
	}
	return p.tracing.Pass(ctx, method, p.parent, string(d.Trigger), p.syncID.String())
}

// count counts the result of one action in the metrics.
func (p *pass) count(r *apply.Result) {
	a := r.Action
	switch {
	case r.Await:
		p.metrics.Wrote(a.Ref.Type, string(r.Did()), observe.WriteConflict)
	case r.Held:
		return
	case r.Err != nil:
		p.metrics.Wrote(a.Ref.Type, string(r.Did()), observe.WriteError)
	case r.Redundant:
		p.metrics.Wrote(a.Ref.Type, string(r.Did()), observe.WriteRedundant)
	case r.Wrote:
		p.metrics.Wrote(a.Ref.Type, string(r.Did()), observe.WriteSuccess)
	}
	switch a.Verb {
	case plan.VerbUpdate, plan.VerbApply, plan.VerbRecreate, plan.VerbMend:
		if r.Wrote || r.Err != nil || r.Await {
			p.metrics.Corrected(a.Ref.Type, len(a.Diffs))
		}
	}
}
