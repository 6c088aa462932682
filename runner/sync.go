package runner

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
	"github.com/roperator/roperator/resource"
)

// awaited is after how long a state that should have arrived by watch is
// looked for again.
const awaited = 2 * time.Second

// terminated is after how long a namespace that was terminating is tried again
// if it isn't the parent's own: nobody may tell when it is there anew.
const terminated = 30 * time.Second

// maxListed bounds how many of a parent's children a log line or an error
// lists.
const maxListed = 20

// The methods of a handler, as metrics and traces call them.
const (
	methodSync     = "sync"
	methodFinalize = "finalize"
)

// A pass is one look at one parent.
type pass struct {
	*engine
	lines    passLog
	parent   *resource.Resource
	req      *handler.SyncRequest
	children []*resource.Resource // of req, in their order
	memory   *parentMemory
	did      []string // what it did, for the log
	would    []Change // what it would have done without DryRun
	results  []result
	// firstWrite is when the first write was answered; zero: none was.
	firstWrite time.Time
	// outdated: of a plan, the parent has changed since the snapshot.
	outdated bool
}

// sync makes one pass over the parent with this UID and says what the
// scheduler is to do next.
func (r *engine) sync(ctx context.Context, d due) outcome {
	req, ok := r.snapshot(d.UID)
	if !ok {
		r.forget(d.UID)
		return r.release(ctx, d.UID)
	}
	p := r.newPass(req)
	start := time.Now()
	inner, span := r.tracing.pass(ctx, p, d)
	out, err := p.run(inner)
	span.end(err)
	return p.conclude(inner, d, out, err, time.Since(start))
}

// newPass returns a pass over the parent of req, which no other pass may be
// under way for.
func (r *engine) newPass(req *handler.SyncRequest) *pass {
	return &pass{
		engine: r, parent: req.Parent, req: req, memory: r.memory.of(req.Parent.UID()),
		children: slices.AppendSeq(make([]*resource.Resource, 0, req.Children.Len()), req.Children.All()),
	}
}

// run makes the pass. A panic is an error of this parent alone: a child or a
// status may be of a type whose encoding panics.
func (p *pass) run(ctx context.Context) (out outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.logger().ErrorContext(ctx, "pass panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			out, err = outcome{Err: true}, fmt.Errorf("panic: %v", v)
		}
	}()
	if p.parent.IsDeleting() {
		return p.finalize(ctx)
	}
	if paused, _ := p.parent.Annotation(p.paused); paused == "true" {
		return outcome{}, nil
	}
	if err := p.settleFinalizers(ctx); apierrors.IsNotFound(err) {
		return outcome{Resync: awaited}, nil // gone meanwhile; the watch will say so
	} else if err != nil {
		return outcome{Err: true}, err
	}
	if p.parent.IsDeleting() {
		return outcome{Again: true}, nil
	}
	resp, err := p.callSync(ctx)
	if err != nil {
		return outcome{Err: true, Permanent: isPermanent(err)}, err
	}
	p.emit(resp.Events)
	return p.act(ctx, resp)
}

// act makes the children and the status what the response asks for.
func (p *pass) act(ctx context.Context, resp *handler.SyncResponse) (outcome, error) {
	var desired []*desiredChild
	var err error
	if !resp.KeepChildren {
		if desired, err = p.desire(p.parent, resp.Children, p.memory); err != nil {
			return outcome{Err: true}, err
		}
	}
	planned := p.plan(planInput{parent: p.parent, desired: desired, keepAll: resp.KeepChildren, children: p.children, memory: p.memory})
	if planned.creates() {
		switch goes, err := p.parentGoes(ctx, p.parent); {
		case err != nil:
			return outcome{Err: true}, err
		case goes:
			return outcome{Resync: awaited}, nil // the watch will say so
		}
	}
	x := &executor{settings: p.settings, client: p.client, store: p.store, parent: p.parent, slots: p.slots, tracing: p.tracing, pass: p}
	x.expectTerminating(p.memory.terminating)
	p.results = x.run(ctx, &planned)
	p.memory.terminating = x.terminating()
	if at := x.first.Load(); at != 0 && p.firstWrite.IsZero() {
		p.firstWrite = time.Unix(0, at)
	}
	p.tellWrites()
	prompted := p.prompted() // no request has to wait for that
	out := p.learn(&planned, desired, resp.KeepChildren, prompted)
	err = p.childErrors(&planned)
	statusOut, statusErr := p.settleStatus(ctx, resp.Status, out.Again, err != nil, prompted)
	out = out.merge(statusOut)
	out.Resync = soonest(out.Resync, resp.Resync)
	if slices.ContainsFunc(p.memory.terminating, func(namespace string) bool { return namespace != p.parent.Namespace() }) {
		out.Resync = soonest(out.Resync, terminated) // it may be created anew
	}
	err = errors.Join(err, statusErr)
	out.Err = err != nil
	out.Permanent = err != nil && onlyRefusals(err)
	return out, err
}

// learn takes the results of a pass into memory and says what they ask of the
// scheduler.
func (p *pass) learn(planned *plan, desired []*desiredChild, keptAll, prompted bool) outcome {
	var out outcome
	for _, a := range planned.settled {
		p.memory.carry(a.want, a.live)
	}
	for i := range p.results {
		r := &p.results[i]
		a := r.action
		p.metrics.wrote(a.ref.Type, string(a.verb), *r)
		p.metrics.corrected(r)
		var refused *refusedError
		switch {
		case errors.As(r.err, &refused) && a.want != nil:
			p.memory.refuse(a.want, a.live, r.err)
		case r.err != nil:
		case r.accepted && r.live != nil:
			if r.wrote {
				out.Throttled = p.suspect(r, prompted) || out.Throttled
			}
			p.memory.accepted(a.want, r.live, r.rest)
			if r.wrote {
				p.memory.children.of(a.ref).wrote = time.Now().UnixNano()
			}
		case r.wrote:
			out.Throttled = p.suspect(r, prompted) || out.Throttled
		}
		if r.wrote {
			out.Again = true
			p.note(r)
		}
		if r.skipped && a.verb != verbMark {
			p.would = append(p.would, p.changeOfChild(r))
		}
		if r.await && !r.parked {
			out.Resync = soonest(out.Resync, awaited)
			if held, ok := p.store.object(a.ref); a.live != nil && (!ok || held.ResourceVersion() != a.live.ResourceVersion()) {
				out.Again = true // the newer state is already here
			}
		}
	}
	if !keptAll {
		p.memory.children.keepOnly(desired)
	}
	return out
}

func (p *pass) childErrors(planned *plan) error {
	errs := append([]error{}, planned.refused...)
	for _, r := range p.results {
		if r.err != nil {
			errs = append(errs, r.err)
		}
	}
	return joined(errs)
}

// onlyRefusals says that every part of a joined error would be the same again.
func onlyRefusals(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !onlyRefusals(e) {
				return false
			}
		}
		return true
	}
	var refused *refusedError
	return errors.As(err, &refused)
}

// callSync calls the handler. A panic is an error, with its stack in the log.
func (p *pass) callSync(ctx context.Context) (resp *handler.SyncResponse, err error) {
	ctx, cancel := p.handlerContext(ctx)
	defer cancel()
	start := time.Now()
	ctx, span := p.tracing.handler(ctx, methodSync)
	defer func() {
		span.end(err)
		p.metrics.handled(ctx, methodSync, time.Since(start), err)
	}()
	defer func() {
		if v := recover(); v != nil {
			p.logger().ErrorContext(ctx, "handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			resp, err = nil, fmt.Errorf("handler: Sync: panic: %v", v)
		}
	}()
	resp, err = p.handler.Sync(ctx, p.req)
	switch {
	case err != nil:
		return nil, fmt.Errorf("handler: Sync: %w", err)
	case resp == nil:
		return nil, errors.New("handler: Sync: returned neither a response nor an error")
	case resp.Resync < 0:
		return nil, fmt.Errorf("handler: Sync: Resync: %s is negative", resp.Resync)
	}
	return resp, nil
}

func (p *pass) handlerContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.cfg.HandlerTimeout > 0 {
		return context.WithTimeout(ctx, p.cfg.HandlerTimeout)
	}
	return context.WithCancel(ctx)
}

// conclude logs what a pass did and hands its outcome on.
func (p *pass) conclude(ctx context.Context, d due, out outcome, err error, took time.Duration) outcome {
	if ctx.Err() != nil && err != nil {
		return out // stopping: cut short, not failed
	}
	p.metrics.passed(d, took, p.firstWrite, err != nil)
	p.tellWould(ctx)
	switch {
	case err != nil:
		p.failed(err)
		p.log.ErrorContext(ctx, "sync failed", append(p.summary(d, took), "error", err)...)
	case len(p.did) > 0:
		if p.log.Enabled(ctx, slog.LevelInfo) {
			p.log.InfoContext(ctx, "synced", p.summary(d, took)...)
		}
	case p.log.Enabled(ctx, slog.LevelDebug):
		p.log.DebugContext(ctx, "nothing to do", p.summary(d, took)...)
	}
	if err == nil {
		p.memory.lastError = ""
	}
	// A clean pass in the middle of a fight doesn't end it.
	out.Throttled = out.Throttled || p.loops.active(time.Now(), p.parent.UID())
	if out.Again || out.Err || len(p.did) > 0 {
		p.memory.inputs = p.inputsLeft()
	}
	return out
}

// summary is what the line about a pass tells.
func (p *pass) summary(d due, took time.Duration) []any {
	args := append(p.identity(10), "trigger", string(d.Trigger), "duration", took)
	if d.More > 0 {
		args = append(args, "moreTriggers", d.More)
	}
	if n := len(p.did); n > maxListed {
		args = append(args, "did", p.did[:maxListed], "didMore", n-maxListed)
	} else if n > 0 {
		args = append(args, "did", p.did)
	}
	return args
}

// failed tells of an error, as an Event once until it changes.
func (p *pass) failed(err error) {
	p.history.add(p.parent.Key(), err)
	if text := err.Error(); text != p.memory.lastError {
		p.memory.lastError = text
		p.event(p.parent, warning, reasonOf(err, p.parent.IsDeleting()), text)
	}
}

// note adds a write to what the pass did.
func (p *pass) note(r *result) {
	p.did = append(p.did, fmt.Sprintf("%s %s", r.action.verb, r.action.ref))
}

// wrote adds a write of the parent itself.
func (p *pass) wrote(what string) {
	p.did = append(p.did, what)
	if p.firstWrite.IsZero() {
		p.firstWrite = time.Now()
	}
}

func (r *engine) forget(uid types.UID) {
	r.memory.forget(uid)
	r.loops.forget(uid)
}

func (o outcome) merge(other outcome) outcome {
	o.Again = o.Again || other.Again
	o.Throttled = o.Throttled || other.Throttled
	o.Resync = soonest(o.Resync, other.Resync)
	return o
}

// soonest returns the shorter of two delays, of which zero means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
