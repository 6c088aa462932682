package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/conflict"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/object"
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
	*catalog.Settings // as the pass began with them
	syncID            passID
	parent            *resource.Resource          // its newest state that the pass knows
	req               *handler.SyncRequest        // the snapshot
	children          []*resource.Resource        // of the snapshot, in its order
	unlabelled        map[object.Ref]struct{}     // those of children that aren't children yet
	queries           []relate.Query              // by which the parent refers to related objects
	memory            *plan.ParentMemory          // of this parent, from pass to pass
	results           []apply.Result              // of the actions on children
	held              map[plan.Batch]plan.HeldNow // the batches of which the rest was not tried
	queued            []apply.Result              // of updates that a rollout makes later, in a dry run
	taken             *takenOver                  // what the last try of a plan has found; nil: this is no plan
	tooEarly          bool                        // Finalize can't be called yet: not all is known that it is to be shown
	stood             bool                        // the status that says what is in the way was written, if need be
	verified          map[object.Ref]struct{}     // children whose readiness says enough from the next pass on: see learnVerified

	due        schedule.Due // what has set off the reconciliation
	desired    *tally       // nil before learn
	progressed bool         // a child was given a state that it did not have lately

	call     string               // the handler's method that was called; empty: none was
	callTook time.Duration        // how long it took
	own      []journal.WriteEntry // writes of the parent itself; nil without a journal
	did      []string             // what was written, as "verb object", for the log
	// wroteParent: the parent's finalizers or its status were written.
	wroteParent bool
	found       *resource.Resource // the parent as the pass has found it; never replaced, so that any goroutine may read it
	firstWrite  time.Time          // when the first write was answered; zero: there was none
	foreseen    []plan.Change      // what would have been written if this weren't a dry run
	// failuresOver says that the handler was last told of children that couldn't be
	// written, and that all of them are written now.
	failuresOver bool
	outdated     bool                     // the parent has changed since the snapshot; known in a dry run only
	supposed     *supposition             // the parent isn't as the API server has it; nil: it is
	news         atomic.Pointer[passNews] // what others are to be told of; nil: nothing, as a rule
}

// show replaces the request by one that change has changed. A handler may have kept the one
// before.
func (p *pass) show(change func(req *handler.SyncRequest)) {
	req := *p.req
	change(&req)
	p.req = &req
}

// sync makes one pass over the parent that is due, and returns what the scheduler
// is to do next. worker is that which calls: see asWorker.
func (e *Engine) sync(ctx context.Context, worker string, d schedule.Due) (out schedule.Outcome) {
	defer func() {
		if v := recover(); v != nil { // before or after run
			out = schedule.Outcome{Err: true}
			logPanic(ctx, e.log, "reconciliation panicked", guard.Recovered(v), "uid", d.UID, "trigger", string(d.Trigger))
		}
	}()
	req, ok := e.snapshot(d.UID)
	if !ok {
		e.forget(d.UID)
		return e.release(ctx, worker, d.UID)
	}
	p := e.newPass(req)
	p.due = d
	e.passes.begin(p.found, &p.syncID, worker)
	defer e.passes.end(d.UID)
	if d.Cause != 0 {
		p.memory.Stir()
	}
	start := time.Now()
	inner, span := p.startSpan(client.ByParent(ctx, d.UID), d)
	var err error
	out, err = p.run(inner)
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
	return &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(children...), LastErrors: e.memory.LastErrors(uid)}, true
}

// newPass returns a pass over the parent of req. No other pass over that parent
// may be under way.
func (e *Engine) newPass(req *handler.SyncRequest) *pass {
	memory, settings := e.memory.Of(req.Parent.UID()), e.current.Load()
	memory.Under(settings.Types)
	return &pass{
		Engine: e, Settings: settings, parent: req.Parent, found: req.Parent, req: req, memory: memory, supposed: e.supposed.of(req.Parent.UID()),
		children: slices.AppendSeq(make([]*resource.Resource, 0, req.Children.Len()), req.Children.All()),
	}
}

// run makes the pass. A panic becomes an error of this pass alone: a child or a
// status may be of a type whose encoding panics.
func (p *pass) run(ctx context.Context) (out schedule.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked := guard.Recovered(v)
			out, err = schedule.Outcome{Err: true}, panicked
			p.logPanic(ctx, "pass panicked", panicked)
		}
	}()
	if p.due.Cause&schedule.Edited != 0 {
		p.loops.Forgive(p.parent.UID(), true)
	}
	if p.parent.IsDeleting() {
		out, err = p.finalize(ctx)
		return p.tellStanding(ctx, out, err)
	}
	if p.finalizeOnly {
		return schedule.Outcome{}, nil
	}
	if out, err = p.work(ctx); err != nil {
		return p.tellStanding(ctx, out, err)
	}
	return out, nil
}

// work is run for a parent that isn't being deleted.
func (p *pass) work(ctx context.Context) (schedule.Outcome, error) {
	p.memory.FindEnding(p.Settings, p.children)
	if p.IsPaused(p.parent) {
		return p.pause(ctx)
	}
	p.memory.Pause(false)
	if known, err := p.refer(ctx); !known {
		return schedule.Outcome{Err: err != nil, Permanent: isPermanent(err)}, err
	}
	if current, err := p.showUnlabelled(ctx); err != nil {
		return schedule.Outcome{Err: true}, err
	} else if !current {
		return schedule.Outcome{Again: true}, nil
	}
	referred := p.parent
	if err := p.settleFinalizers(ctx); apierrors.IsNotFound(err) {
		return p.lookAgain(ctx, err)
	} else if err != nil {
		return schedule.Outcome{Err: true}, err
	}
	if p.parent.IsDeleting() {
		return schedule.Outcome{Again: true}, nil
	}
	if p.parent != referred { // somebody may have changed, too, what it refers to
		if known, err := p.refer(ctx); !known {
			return schedule.Outcome{Err: err != nil, Permanent: isPermanent(err)}, err
		}
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
	status, err := p.desireStatus(resp.Status)
	if err != nil {
		return schedule.Outcome{Err: true}, err
	}
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
	p.prove(ctx)
	if !resp.KeepChildren {
		p.store.AwaitOnly(p.parent.UID(), plan.Refs(desired))
	}
	p.carryOut(ctx, &planned)
	out := p.learn(ctx, &planned, desired, resp.KeepChildren)
	out.Again = p.awaitTypes(&planned) || out.Again
	err = p.learnFailures(&planned)
	if err == nil && !resp.KeepChildren {
		err = p.deleteFormer(ctx)
	}
	texts, waits := p.waitTexts(&planned)
	p.tellWaits(texts)
	statusOut, statusErr := p.settleActed(ctx, status, outlook{planned: &planned, desired: desired, kept: resp.KeepChildren, waits: waits, again: out.Again || p.failuresOver, err: err})
	out = out.Merge(statusOut)
	out.Again = out.Again || p.failuresOver
	out.Resync = schedule.Soonest(out.Resync, resp.Resync)
	if p.memory.AwaitsNamespace(p.parent.Namespace()) {
		out.Resync = schedule.Soonest(out.Resync, terminatingRetry)
	}
	err = errors.Join(err, statusErr, p.queuedErrors())
	out.Err = err != nil
	p.postpone(&out, err)
	p.memory.Calm()
	return out, err
}

// carryOut carries out a plan, and tells of it.
func (p *pass) carryOut(ctx context.Context, planned *plan.Plan) {
	p.findRivals(ctx, planned)
	p.apply(ctx, planned)
	p.emitWrites()
	p.tellUntried()
}

// settleActed settles the status of a parent whose children were acted on.
func (p *pass) settleActed(ctx context.Context, status *desiredStatus, o outlook) (schedule.Outcome, error) {
	standing, expires := p.stand(o)
	state := childrenState{changed: o.again, failed: o.err != nil, waits: len(o.waits) > 0 && !slices.Equal(o.waits, []string{byNextPass}), caused: p.caused() || o.err != nil, standing: standing}
	out, err := p.settleStatus(ctx, status, state)
	out.Resync = schedule.Soonest(out.Resync, expires)
	return out, err
}

// postpone lets the next pass wait until refused writes are tried again, or for the
// delay that the handler asked for. It does nothing unless refusals are all that
// has gone wrong.
func (p *pass) postpone(out *schedule.Outcome, err error) {
	if err == nil || !apierror.OnlyRefusals(err) {
		return
	}
	if in := p.memory.RetryIn(time.Now()); in > 0 {
		out.Permanent, out.RetryAfter = true, schedule.Soonest(in, out.Resync)
	}
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
	if err := plan.CheckPartitions(p.Settings, p.parent); err != nil {
		return nil, plan.Plan{}, err
	}
	needed := plan.Needed{Related: p.req.Related, Refers: p.refersTo}
	if err := plan.FindNeeds(p.Settings, p.parent, desired, resp.Children, needed); err != nil {
		return nil, plan.Plan{}, err
	}
	return desired, plan.Build(p.Settings, plan.Input{
		Parent: p.parent, Desired: desired, KeepAll: resp.KeepChildren, Children: p.children, Unlabelled: p.unlabelled, Memory: p.memory, Now: time.Now(), Needed: needed, Held: p.store.HeldFields,
	}), nil
}

// apply carries out a plan, and keeps the results.
func (p *pass) apply(ctx context.Context, planned *plan.Plan) {
	x := &apply.Executor{
		Settings: p.Settings, Client: p.client, Store: p.store, Tracing: p.tracing, Lessons: p.lessons, Slots: p.slots, Parent: p.parent, Owner: p,
		EndsAtClaim: p.taken != nil, Probes: p.memory.HeldBatches(time.Now()),
	}
	if p.supposed != nil && p.supposed.isNew && p.Types.Parent.IsNamespace() {
		x.Expect(p.parent.Name())
	}
	report := x.Run(ctx, planned, p.memory.NamespacesTerminating())
	p.results, p.held = report.Results, report.Held
	if p.Config.DryRun {
		p.queued = x.Rehearse(ctx, planned.Queued)
	}
	p.memory.FoundTerminating(report.Terminating)
	if p.firstWrite.IsZero() {
		p.firstWrite = report.FirstWrite
	}
}

// conclude counts and logs how a pass ended, and returns its outcome for the
// scheduler.
func (p *pass) conclude(ctx context.Context, d schedule.Due, out schedule.Outcome, err error, took time.Duration) schedule.Outcome {
	p.emitWarnings()
	if ctx.Err() != nil && err != nil {
		return out // the operator stops: the pass was cut short, it hasn't failed
	}
	p.metrics.Passed(observe.Pass{Took: took, Waited: d.Waited, Event: d.Event, FirstWrite: p.firstWrite, Failed: err != nil})
	if !out.Forget {
		p.metrics.PassedParent(p.req.Parent.UID(), p.req.Parent.Key(), err != nil)
	}
	p.logForeseen(ctx)
	p.logPass(ctx, d, err, took)
	if out.Again && d.Unasked {
		p.countRepeat()
	}
	throttle := p.throttle()
	out.Throttled, out.Paced, out.Unfinished = throttle != conflict.None, throttle == conflict.Pace, p.recreates()
	out.Step = p.progressed
	p.note(d, out, err, took)
	return out
}

// recreates says whether the pass has deleted a child that the next one creates anew.
func (p *pass) recreates() bool {
	return slices.ContainsFunc(p.results, func(r apply.Result) bool {
		return r.Wrote && r.Live == nil && r.Action.Verb == plan.VerbRecreate
	})
}

// Changed queues the parents that a state of a child concerns which was read. It is called concurrently.
func (p *pass) Changed(c store.Change, child object.Ref) {
	p.changed(c, schedule.Fresh, schedule.Trigger(child.String()))
}

// wrote notes a write of the parent itself, such as "update status".
func (p *pass) wrote(what string) {
	p.wroteParent = true
	p.did = append(p.did, what)
	if p.firstWrite.IsZero() {
		p.firstWrite = time.Now()
	}
}

// forget drops what is remembered of a parent that the store doesn't hold any more. What it has of former
// types stays known: it may come back, if it has merely left the ParentSelector.
func (e *Engine) forget(uid types.UID) {
	e.memory.Forget(uid)
	e.metrics.ForgetParent(uid)
	e.loops.Forget(uid)
	e.serving.forget(uid)
	e.journal.Forget(uid)
	if e.related != nil {
		e.related.Forget(uid)
	}
}
