package reconcile

import (
	"context"
	"errors"
	"fmt"
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
	// watchDelay is how long a pass waits for a state that the watch should
	// deliver, before the parent is due again.
	watchDelay = 2 * time.Second
	// terminatingRetry is how long after a pass the parent is due again if the
	// namespace of a child was being deleted, unless that namespace is the
	// parent's own. No watch may tell when the namespace exists anew.
	terminatingRetry = 30 * time.Second
)

// A pass is one look at one parent: from the snapshot to the status. It belongs
// to one goroutine, but for what apply.Owner says.
type pass struct {
	*Engine
	syncID   passID
	parent   *resource.Resource   // its newest state that the pass knows
	req      *handler.SyncRequest // the snapshot
	children []*resource.Resource // of the snapshot, in its order
	memory   *plan.ParentMemory   // of this parent, from pass to pass
	results  []apply.Result       // of the actions on children

	did        []string      // what was written, as "verb object", for the log
	firstWrite time.Time     // when the first write was answered; zero: there was none
	foreseen   []plan.Change // what would have been written if this weren't a dry run
	outdated   bool          // the parent has changed since the snapshot; known in a dry run only
}

// sync makes one pass over the parent that is due, and returns what the scheduler
// is to do next.
func (e *Engine) sync(ctx context.Context, d schedule.Due) schedule.Outcome {
	req, ok := e.snapshot(d.UID)
	if !ok {
		e.forget(d.UID)
		return e.release(ctx, d.UID)
	}
	p := e.newPass(req)
	start := time.Now()
	inner, span := p.startSpan(ctx, d)
	out, err := p.run(inner)
	span.End(err)
	return p.conclude(inner, d, out, err, time.Since(start))
}

// snapshot returns what the handler is to see of a parent, false if the store
// doesn't hold the parent. The snapshot includes the result of every write that
// this process has made.
func (e *Engine) snapshot(uid types.UID) (*handler.SyncRequest, bool) {
	parent, children := e.store.Family(uid)
	if parent == nil {
		return nil, false
	}
	return &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(children...)}, true
}

// newPass returns a pass over the parent of req. No other pass over that parent
// may be under way.
func (e *Engine) newPass(req *handler.SyncRequest) *pass {
	return &pass{
		Engine: e, parent: req.Parent, req: req, memory: e.memory.Of(req.Parent.UID()),
		children: slices.AppendSeq(make([]*resource.Resource, 0, req.Children.Len()), req.Children.All()),
	}
}

// run makes the pass. A panic becomes an error of this pass alone: a child or a
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
		return schedule.Outcome{Resync: watchDelay}, nil // the parent is gone; the watch will say so
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

// act makes the children and the parent's status what the response asks for.
func (p *pass) act(ctx context.Context, resp *handler.SyncResponse) (schedule.Outcome, error) {
	desired, planned, err := p.plan(resp)
	if err != nil {
		return schedule.Outcome{Err: true}, err
	}
	if planned.Creates() {
		switch goes, err := p.parentGoes(ctx); {
		case err != nil:
			return schedule.Outcome{Err: true}, err
		case goes:
			return schedule.Outcome{Resync: watchDelay}, nil // the watch will say so
		}
	}
	p.apply(ctx, &planned)
	p.emitWrites()
	prompted := p.prompted() // so late, since hashing holds up no request here
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

// plan validates a response, and decides which actions it takes. The error is an
// invalid response; nothing has been written then.
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

// apply carries out a plan, and keeps the results.
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

// learn remembers the results of the actions on children, and returns what they
// ask of the scheduler. keptAll says that the response left the children as they
// are, prompted that somebody else has changed the parent or a child.
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

// learnOne is learn for the result of one action.
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
	p.remember(r)
	if r.Skipped && r.Would != plan.VerbMark {
		p.foreseen = append(p.foreseen, p.changeOfChild(r))
	}
	if r.Await && !r.Parked {
		out.Resync = watchDelay
		out.Again = out.Again || p.newerHeld(a)
	}
	return out
}

// remember keeps what the API server made of the desired state of an action, or
// that it refused that state.
func (p *pass) remember(r *apply.Result) {
	a := r.Action
	refused, isRefused := errors.AsType[*apierror.RefusedError](r.Err)
	switch {
	case isRefused && a.Want != nil:
		p.memory.Refuse(a.Want, a.Live, refused)
	case r.Err != nil, !r.Accepted, r.Live == nil:
	case r.Wrote:
		p.memory.AcceptWritten(a.Want, r.Live, r.Rest, time.Now())
	default:
		p.memory.Accept(a.Want, r.Live, r.Rest)
	}
}

// newerHeld says whether the store already holds a newer state of an action's
// object than the action was planned for, or holds the object no longer.
func (p *pass) newerHeld(a *plan.Action) bool {
	if a.Live == nil {
		return false
	}
	held, ok := p.store.Object(a.Ref)
	return !ok || held.ResourceVersion() != a.Live.ResourceVersion()
}

// childErrors joins the errors of the children: of this pass's writes, and of
// earlier writes that are known to fail again.
func (p *pass) childErrors(planned *plan.Plan) error {
	errs := slices.Clone(planned.Refused)
	for _, r := range p.results {
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	return apierror.Join(errs)
}

// conclude counts and logs how a pass ended, and returns its outcome for the
// scheduler.
func (p *pass) conclude(ctx context.Context, d schedule.Due, out schedule.Outcome, err error, took time.Duration) schedule.Outcome {
	if ctx.Err() != nil && err != nil {
		return out // the operator stops: the pass was cut short, it hasn't failed
	}
	p.metrics.Passed(observe.Pass{Took: took, Waited: d.Waited, Event: d.Event, FirstWrite: p.firstWrite, Failed: err != nil})
	p.logForeseen(ctx)
	p.logPass(ctx, d, err, took)
	// A pass without writes in the middle of a conflict loop doesn't end the loop.
	out.Throttled = out.Throttled || p.loops.Active(time.Now(), p.parent.UID())
	if out.Again || out.Err || len(p.did) > 0 {
		p.memory.Leave(p.inputsLeft())
	}
	return out
}

// wrote notes a write of the parent itself, such as "update status".
func (p *pass) wrote(what string) {
	p.did = append(p.did, what)
	if p.firstWrite.IsZero() {
		p.firstWrite = time.Now()
	}
}

// forget drops what is remembered of a parent that is gone.
func (e *Engine) forget(uid types.UID) {
	e.memory.Forget(uid)
	e.loops.Forget(uid)
}
