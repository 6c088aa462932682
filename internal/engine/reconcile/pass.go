package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/resource"
)

const (
	// watchDelay is after how long a pass looks again for a state that should
	// have arrived by watch.
	watchDelay = 2 * time.Second
	// terminatingRetry is after how long a child's namespace that was being
	// deleted is tried again, unless it is the parent's own. Nobody may tell when
	// such a namespace exists anew.
	terminatingRetry = 30 * time.Second
)

// A pass is one look at one parent.
type pass struct {
	*Engine
	lines    passLog
	parent   *resource.Resource
	req      *handler.SyncRequest
	children []*resource.Resource // of req, in their order
	memory   *plan.ParentMemory
	results  []apply.Result

	did        []string      // what was written, for the log
	firstWrite time.Time     // when the first write was answered; zero: there was none
	would      []plan.Change // what would have been written without DryRun
	outdated   bool          // the parent has changed since the snapshot; known in a dry run only
}

// sync makes one pass over the parent with this UID, and says what the scheduler
// is to do next.
func (e *Engine) sync(ctx context.Context, d schedule.Due) schedule.Outcome {
	req, ok := e.snapshot(d.UID)
	if !ok {
		e.forget(d.UID)
		return e.release(ctx, d.UID)
	}
	p := e.newPass(req)
	start := time.Now()
	inner, span := p.trace(ctx, d)
	out, err := p.run(inner)
	span.End(err)
	return p.conclude(inner, d, out, err, time.Since(start))
}

// snapshot returns what the handler is to see of a parent, false if the parent
// doesn't exist. It includes the result of every write that this process has
// made.
func (e *Engine) snapshot(uid types.UID) (*handler.SyncRequest, bool) {
	parent, children := e.store.Family(uid)
	if parent == nil {
		return nil, false
	}
	return &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(children...)}, true
}

// newPass returns a pass over the parent of req. No other pass over it may be
// under way.
func (e *Engine) newPass(req *handler.SyncRequest) *pass {
	return &pass{
		Engine: e, parent: req.Parent, req: req, memory: e.memory.Of(req.Parent.UID()),
		children: slices.AppendSeq(make([]*resource.Resource, 0, req.Children.Len()), req.Children.All()),
	}
}

// run makes the pass. A panic is an error of this parent alone: a child or a
// status may be of a type whose encoding panics.
func (p *pass) run(ctx context.Context) (out schedule.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.Logger().ErrorContext(ctx, "pass panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			out, err = schedule.Outcome{Err: true}, fmt.Errorf("panic: %v", v)
		}
	}()
	if p.parent.IsDeleting() {
		return p.finalize(ctx)
	}
	if paused, _ := p.parent.Annotation(p.Paused); paused == "true" {
		return schedule.Outcome{}, nil
	}
	if err := p.settleFinalizers(ctx); apierrors.IsNotFound(err) {
		return schedule.Outcome{Resync: watchDelay}, nil // gone meanwhile; the watch will say so
	} else if err != nil {
		return schedule.Outcome{Err: true}, err
	}
	if p.parent.IsDeleting() {
		return schedule.Outcome{Again: true}, nil
	}
	resp, err := p.callSync(ctx)
	if err != nil {
		return p.failSync(ctx, resp, err)
	}
	p.emit(resp.Events)
	return p.act(ctx, resp)
}

// act makes the children and the status what the response asks for.
func (p *pass) act(ctx context.Context, resp *handler.SyncResponse) (schedule.Outcome, error) {
	desired, planned, err := p.plan(resp)
	if err != nil {
		return schedule.Outcome{Err: true}, err
	}
	if planned.Creates() {
		switch goes, err := p.ownerGoes(ctx); {
		case err != nil:
			return schedule.Outcome{Err: true}, err
		case goes:
			return schedule.Outcome{Resync: watchDelay}, nil // the watch will say so
		}
	}
	p.apply(ctx, &planned)
	p.tellWrites()
	prompted := p.prompted() // asked this late, it holds up no request
	out := p.learn(&planned, desired, resp.KeepChildren, prompted)
	err = p.childErrors(&planned)
	statusOut, statusErr := p.settleStatus(ctx, resp.Status, childrenState{changed: out.Again, failed: err != nil, prompted: prompted})
	out = out.Merge(statusOut)
	out.Resync = schedule.Soonest(out.Resync, resp.Resync)
	if p.memory.AwaitsNamespace(p.parent.Namespace()) {
		out.Resync = schedule.Soonest(out.Resync, terminatingRetry)
	}
	err = errors.Join(err, statusErr)
	out.Err = err != nil
	out.Permanent = err != nil && apierror.OnlyRefusals(err)
	return out, err
}

// plan validates a response, and decides what has to be done for it. Nothing
// was written if it returns an error.
func (p *pass) plan(resp *handler.SyncResponse) ([]*plan.Desired, plan.Plan, error) {
	var desired []*plan.Desired
	if !resp.KeepChildren {
		var err error
		if desired, err = plan.Desire(p.Settings, p.parent, resp.Children, p.memory); err != nil {
			return nil, plan.Plan{}, err
		}
	}
	return desired, plan.Build(p.Settings, plan.Input{
		Parent: p.parent, Desired: desired, KeepAll: resp.KeepChildren, Children: p.children, Memory: p.memory,
	}), nil
}

// apply carries out a plan.
func (p *pass) apply(ctx context.Context, planned *plan.Plan) {
	x := &apply.Executor{
		Settings: p.Settings, Client: p.client, Store: p.store, Tracing: p.tracing, Slots: p.slots, Parent: p.parent, Owner: p,
	}
	report := x.Run(ctx, planned, p.memory.NamespacesTerminating())
	p.results = report.Results
	p.memory.FoundTerminating(report.Terminating)
	if p.firstWrite.IsZero() {
		p.firstWrite = report.FirstWrite
	}
}

// learn remembers the results of a pass, and says what they ask of the
// scheduler.
func (p *pass) learn(planned *plan.Plan, desired []*plan.Desired, keptAll, prompted bool) schedule.Outcome {
	var out schedule.Outcome
	for _, a := range planned.Settled {
		p.memory.Carry(a.Want, a.Live)
	}
	for i := range p.results {
		out = out.Merge(p.learnOne(&p.results[i], prompted))
	}
	if !keptAll {
		p.memory.KeepOnly(desired)
	}
	return out
}

// learnOne remembers the result of one action, and says what it asks of the
// scheduler.
func (p *pass) learnOne(r *apply.Result, prompted bool) (out schedule.Outcome) {
	a := r.Action
	p.count(r)
	if r.Wrote {
		out.Again = true
		p.did = append(p.did, string(a.Verb)+" "+a.Ref.String())
		if r.Err == nil {
			out.Throttled = p.suspect(r, prompted)
		}
	}
	switch refused, isRefused := errors.AsType[*apierror.RefusedError](r.Err); {
	case isRefused && a.Want != nil:
		p.memory.Refuse(a.Want, a.Live, refused)
	case r.Err != nil:
	case r.Accepted && r.Live != nil && r.Wrote:
		p.memory.AcceptWritten(a.Want, r.Live, r.Rest, time.Now())
	case r.Accepted && r.Live != nil:
		p.memory.Accept(a.Want, r.Live, r.Rest)
	}
	if r.Skipped && r.Would != plan.VerbMark {
		p.would = append(p.would, p.changeOfChild(r))
	}
	if r.Await && !r.Parked {
		out.Resync = watchDelay
		held, ok := p.store.Object(a.Ref)
		out.Again = out.Again || a.Live != nil && (!ok || held.ResourceVersion() != a.Live.ResourceVersion()) // the newer state is already here
	}
	return out
}

// childErrors joins what is wrong with the children.
func (p *pass) childErrors(planned *plan.Plan) error {
	errs := slices.Clone(planned.Refused)
	for _, r := range p.results {
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	return apierror.Join(errs)
}

// conclude tells what a pass did, and hands its outcome on.
func (p *pass) conclude(ctx context.Context, d schedule.Due, out schedule.Outcome, err error, took time.Duration) schedule.Outcome {
	if ctx.Err() != nil && err != nil {
		return out // stopping: cut short, not failed
	}
	p.metrics.Passed(observe.Pass{Took: took, Waited: d.Waited, Event: d.Event, FirstWrite: p.firstWrite, Failed: err != nil})
	p.tellWould(ctx)
	p.tellPass(ctx, d, err, took)
	// A pass without writes in the middle of a conflict loop doesn't end it.
	out.Throttled = out.Throttled || p.loops.Active(time.Now(), p.parent.UID())
	if out.Again || out.Err || len(p.did) > 0 {
		p.memory.Leave(p.inputsLeft())
	}
	return out
}

// tellPass logs what a pass did. An error is told by an Event too, once until it
// changes.
func (p *pass) tellPass(ctx context.Context, d schedule.Due, err error, took time.Duration) {
	log := p.Engine.log
	if err == nil {
		p.memory.Failed("")
	}
	switch {
	case err != nil:
		p.history.add(p.parent.Key(), err)
		if p.memory.Failed(err.Error()) {
			p.event(p.parent, observe.Warning, reasonOf(err, p.parent.IsDeleting()), err.Error())
		}
		log.ErrorContext(ctx, "sync failed", append(p.summary(d, took), "error", err)...)
	case len(p.did) > 0:
		if log.Enabled(ctx, slog.LevelInfo) {
			log.InfoContext(ctx, "synced", p.summary(d, took)...)
		}
	case log.Enabled(ctx, slog.LevelDebug):
		log.DebugContext(ctx, "nothing to do", p.summary(d, took)...)
	}
}

// wrote notes a write of the parent itself.
func (p *pass) wrote(what string) {
	p.did = append(p.did, what)
	if p.firstWrite.IsZero() {
		p.firstWrite = time.Now()
	}
}

// forget drops what is remembered of a parent.
func (e *Engine) forget(uid types.UID) {
	e.memory.Forget(uid)
	e.loops.Forget(uid)
}
