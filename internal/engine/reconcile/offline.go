package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// An OfflinePlanner plans passes without an API server: it does what an engine
// does before the first request. Its methods may be called concurrently.
type OfflinePlanner struct {
	settings *catalog.Settings
	handler  handler.Handler
}

// NewOfflinePlanner returns a planner for cfg, which must be valid and have its
// defaults filled in. An error says that the scope of a type doesn't fit.
func NewOfflinePlanner(cfg config.Operator, h handler.Handler) (*OfflinePlanner, error) {
	types, err := catalog.Offline(cfg)
	if err != nil {
		return nil, err
	}
	return &OfflinePlanner{settings: catalog.NewSettings(cfg, h, types), handler: h}, nil
}

// A Planned is what a pass would do.
type Planned struct {
	// Actions are those on children, in the order in which they would be carried
	// out.
	Actions []plan.ForeseenAction
	// Desired are the children that shall exist, but for those that are kept as they are
	// (handler.Keep): each as it would be created, without what the engine sets. They are read only.
	Desired []map[string]any
	// Finalized says that the operator's finalizer would be taken off.
	Finalized bool
	// Status is the parent's status after the pass.
	Status any
	// Returned is the status as the handler has returned it, as JSON values; nil if it has returned none.
	Returned any
	// WritesStatus says that Status differs from the parent's present status, and that the handler has
	// returned one.
	WritesStatus bool
}

// Namespaced says whether objects of a type live in namespaces. guessed says that
// neither the configuration nor the built-in kinds know the type.
func (o *OfflinePlanner) Namespaced(t resource.Type) (namespaced, guessed bool) {
	m, guessed := catalog.MappingOf(o.settings.Config, t)
	return !m.ClusterScoped, guessed
}

// Finalizer returns the operator's finalizer, "" if there is nothing to
// finalize.
func (o *OfflinePlanner) Finalizer() string {
	if o.settings.Holds {
		return o.settings.Finalizer
	}
	return ""
}

// Adopt gives a child the labels and the owner reference that make it a child of
// parent.
func (o *OfflinePlanner) Adopt(child map[string]any, parent *resource.Resource) {
	plan.AdoptOffline(o.settings, child, parent)
}

// CompleteStatus fills in what an engine would have added to the status of a parent at this
// generation, but for the times of conditions.
func (o *OfflinePlanner) CompleteStatus(status map[string]any, generation int64) {
	if status["observedGeneration"] == nil {
		status["observedGeneration"] = generation
	}
	new(plan.ParentMemory).CompleteConditions(status, nil, generation, time.Time{})
}

// Compare lists the fields in which an object doesn't satisfy a desired one.
func (o *OfflinePlanner) Compare(t resource.Type, live, desired map[string]any) []merge.Difference {
	return plan.Differences(o.settings.Types, t, live, desired)
}

// Plan calls the handler with req, and returns what a pass would do. Of req.Related, which
// may hold anything, the handler is shown what the parent refers to. If the pass
// would fail, the error says why; the Planned beside the error is what the failed
// pass would do all the same, nil if that is nothing.
func (o *OfflinePlanner) Plan(ctx context.Context, req *handler.SyncRequest) (found *Planned, err error) {
	// An engine that remembers nothing and can't make a request.
	p := New(Config{
		Settings: o.settings, Handler: o.handler, Metrics: observe.NewMetrics(), Log: slog.New(slog.DiscardHandler),
	}).newPass(req)
	defer p.recovered(ctx, &err, "planning panicked")
	queries, err := p.references(ctx)
	if err != nil {
		return nil, err
	}
	p.show(func(req *handler.SyncRequest) {
		req.Related = handler.NewObjects(relate.Match(queries, slices.Collect(req.Related.All()))...)
	})
	if req.Parent.IsDeleting() {
		return p.planFinalize(ctx)
	}
	resp, err := p.callSync(ctx)
	switch {
	case resp == nil:
		return nil, err
	case err != nil && !deletesChildren(err):
		return p.planFailure(resp.Status, err)
	case err != nil:
		resp = &handler.SyncResponse{Status: resp.Status}
	}
	status, invalid := p.desireStatus(resp.Status)
	if invalid != nil {
		return nil, errors.Join(err, invalid)
	}
	desired, planned, planErr := p.plan(resp)
	if planErr != nil {
		return nil, planErr
	}
	out := &Planned{}
	for _, d := range desired {
		if object, _ := jsonvalue.NullFree(d.Object()).(map[string]any); object != nil {
			out.Desired = append(out.Desired, object)
		}
	}
	out.foreseePlan(&planned)
	p.planStatus(out, status, p.standOffline(&planned, desired, resp, len(out.Actions), err))
	return out, err
}

// foreseePlan notes the actions of a plan, and those that wait.
func (o *Planned) foreseePlan(planned *plan.Plan) {
	early, late := plan.SplitDeletes(planned.Deletes)
	o.foresee(early, planned.Writes, late)
	for i := range planned.Gated {
		o.Actions = append(o.Actions, planned.Gated[i].Foresee())
	}
	for i := range planned.Queued {
		if step, shown := planned.Queued[i].Foresee(); shown {
			o.Actions = append(o.Actions, step)
		}
	}
}

// planFinalize plans a pass over a parent that is being deleted.
func (p *pass) planFinalize(ctx context.Context) (*Planned, error) {
	if !p.Holds || !p.hasOurs(p.parent) {
		return &Planned{}, nil
	}
	if p.Finalizes {
		resp, err := p.callFinalize(ctx)
		switch {
		case resp == nil:
			return nil, err
		case err != nil || resp.Children == nil && !resp.Finalized:
			return p.planFailure(resp.Status, err)
		case !resp.Finalized:
			return p.planWhileFinalizing(resp)
		}
	}
	t := plan.TearDown(p.Settings, p.input())
	out := &Planned{Finalized: t.Done() || len(t.Writes) > 0} // what is retained is the last
	out.foresee(t.Writes, t.Deletes)
	return out, nil
}

// planWhileFinalizing plans a pass whose Finalize says which children shall exist meanwhile.
func (p *pass) planWhileFinalizing(resp *handler.FinalizeResponse) (*Planned, error) {
	status, err := p.desireStatus(resp.Status)
	if err != nil {
		return nil, err
	}
	kept, err := plan.Desire(p.Settings, p.parent, resp.Children, p.memory)
	if err != nil {
		return nil, err
	}
	out := &Planned{}
	p.planStatus(out, status, p.standWhileDeleting())
	planned := plan.KeepWhileFinalizing(p.Settings, p.input(), kept)
	out.foresee(planned.Deletes)
	return out, nil
}

// foresee adds actions.
func (o *Planned) foresee(actions ...[]plan.Action) {
	for _, a := range slices.Concat(actions...) {
		if step, ok := plan.Foresee(&a); ok {
			o.Actions = append(o.Actions, step)
		}
	}
}

// planFailure plans a pass that writes the status at most, and fails with err
// unless err is nil.
func (p *pass) planFailure(status any, err error) (*Planned, error) {
	out := &Planned{}
	standing := p.standAfter(err)
	if p.parent.IsDeleting() {
		standing = p.standWhileDeleting()
	}
	want, invalid := p.desireStatus(status)
	if invalid == nil {
		p.planStatus(out, want, standing)
	}
	return out, errors.Join(err, invalid)
}

// planStatus fills in Status and WritesStatus. want is the handler's status, and standing says
// what is in the way of the parent.
func (p *pass) planStatus(out *Planned, want *desiredStatus, standing *plan.Standing) {
	if want != nil {
		out.Returned = runtime.DeepCopyJSONValue(want.value)
	}
	live, _ := p.parent.Field("status")
	if standing != nil && (want != nil || !p.parent.IsDeleting()) {
		want = p.orPresent(want)
	}
	if want == nil {
		out.Status = live
		return
	}
	live = jsonvalue.NullFree(live)
	out.Status = p.completeStatus(want, live, completion{standing: standing})
	out.WritesStatus = !want.kept && !jsonvalue.Equal(out.Status, live)
}
