package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/conflict"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// What is in the way of a parent, as the conditions Ready, Reconciling and Stalled tell it: see
// config.Operator.ReadyCondition.

// maxStanding bounds the message of a condition, in bytes.
const maxStanding = 1024

// An outlook is what a pass leaves behind.
type outlook struct {
	planned *plan.Plan
	desired []*plan.Desired
	kept    bool     // the response left all children as they are
	waits   []string // what the children that aren't as desired wait for, as texts
	again   bool     // the next pass follows at once
	err     error    // what could not be written
}

// stand returns what is in the way of the parent, nil without config.Operator.ReadyCondition. It
// also returns in how long that may change by itself, zero if it doesn't.
func (p *pass) stand(o outlook) (*plan.Standing, time.Duration) {
	if !p.Config.ReadyCondition {
		return nil, 0
	}
	child, expires := p.standOfChildren(o)
	loop := p.loops.Throttle(time.Now(), p.parent.UID())
	switch {
	case loop != conflict.None:
		return standing(readiness.Failed, plan.ReasonConflictLoop, "somebody undoes what the operator writes, or the handler returns something else each time; the Event ConflictLoop says which field"), expires
	case o.err != nil:
		return standOfWrites(o.err), expires
	case child != nil:
		return child, expires
	case len(o.waits) > 0:
		return standing(readiness.InProgress, plan.ReasonWaiting, o.waits[0]), expires
	case o.again:
		return standing(readiness.InProgress, plan.ReasonProgressing, "what was written is being looked at"), expires
	}
	return standing(readiness.Current, plan.ReasonReady, "all children are as desired and ready"), expires
}

// standing returns a Standing with a message that isn't too long.
func standing(state readiness.State, reason, message string) *plan.Standing {
	return &plan.Standing{State: state, Reason: reason, Message: observe.Shorten(message, maxStanding)}
}

// firstOf returns the text of the first of joined errors, in one line.
func firstOf(err error) string {
	text := err.Error()
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		if first := joined.Unwrap()[0]; text == first.Error() || strings.HasPrefix(text, first.Error()+"\n") {
			return firstOf(first)
		}
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// standOfChildren says which desired child isn't Current: the first that is Failed, otherwise the
// first of all, nil if all are Current. It also returns in how long that may change by itself.
func (p *pass) standOfChildren(o outlook) (first *plan.Standing, expires time.Duration) {
	defer p.memory.ForgetReadiness()
	look := func(ref object.Ref, live *resource.Resource) {
		if live == nil {
			return // it waits, or wasn't written, which other texts say
		}
		is, in := p.memory.Readiness(live, time.Now())
		expires = schedule.Soonest(expires, in)
		switch {
		case is.State == readiness.Current:
		case is.State == readiness.Failed && (first == nil || first.State != readiness.Failed):
			first = standing(readiness.Failed, plan.ReasonChildFailed, ref.String()+": "+is.Message)
		case first == nil:
			first = standing(readiness.InProgress, plan.ReasonChildNotReady, ref.String()+": "+is.Message)
		}
	}
	if o.kept {
		for _, live := range p.children {
			look(object.RefOf(live), live)
		}
		return first, expires
	}
	written, hint := p.written(), 0
	for ref := range plan.Refs(o.desired) {
		live, wrote := written[ref]
		if !wrote {
			live = plan.Live(p.children, ref, &hint)
		}
		look(ref, live)
	}
	return first, expires
}

// written returns the children that the pass has written, as they are now; nil for one that is
// being created anew.
func (p *pass) written() map[object.Ref]*resource.Resource {
	var out map[object.Ref]*resource.Resource
	for i := range p.results {
		if r := &p.results[i]; r.Wrote {
			if out == nil {
				out = map[object.Ref]*resource.Resource{}
			}
			out[r.Action.Ref] = r.Live
		}
	}
	return out
}

// standOfWrites returns what is in the way of a parent of which a child couldn't be written.
func standOfWrites(err error) *plan.Standing {
	if apierror.OnlyRefusals(err) {
		return standing(readiness.Failed, plan.ReasonWriteRefused, firstOf(err))
	}
	return standing(readiness.InProgress, plan.ReasonWriteFailed, firstOf(err))
}

// standOf returns what is in the way of a parent whose pass has failed: before its children
// were looked at, or in the teardown of its children.
func (p *pass) standOf(err error) *plan.Standing {
	switch {
	case isInvalid(err):
		return standing(readiness.Failed, plan.ReasonInvalidResponse, firstLine(err))
	case !HandlerFailed(err) && (apierror.OnlyRefusals(err) || slices.ContainsFunc(p.results, func(r apply.Result) bool { return r.Err != nil })):
		return standOfWrites(err)
	case isPermanent(err), apierror.OnlyRefusals(err):
		return standing(readiness.Failed, plan.ReasonHandlerFailed, firstLine(err))
	}
	return standing(readiness.InProgress, plan.ReasonHandlerFailed, firstLine(err))
}

// standAfter returns what is in the way of a parent after its pass has failed with err, nil
// without config.Operator.ReadyCondition.
func (p *pass) standAfter(err error) *plan.Standing {
	if !p.Config.ReadyCondition {
		return nil
	}
	return p.standOf(err)
}

// tellStanding writes what is in the way of a parent whose pass has failed, or that is being
// deleted, unless the pass has written the status. A pass that couldn't call Finalize yet, as
// after a restart, leaves what an earlier one has told. A dry run foresees what a failure of the
// handler would tell: what else fails there may not fail without it.
func (p *pass) tellStanding(ctx context.Context, out schedule.Outcome, err error) (schedule.Outcome, error) {
	if !p.Config.ReadyCondition || p.stood || p.finalizeOnly || ctx.Err() != nil || p.Config.DryRun && !HandlerFailed(err) {
		return out, err
	}
	state := childrenState{failed: err != nil, caused: true}
	switch {
	case err != nil:
		state.standing = p.standOf(err)
	case p.parent.IsDeleting() && p.Holds && p.hasOurs(p.parent):
		if status, _ := p.parent.Field("status"); p.tooEarly && plan.IsInTheWay(status, p.parent.Generation()) {
			return out, nil
		}
		state.standing = p.standWhileDeleting()
	default:
		return out, nil
	}
	_, statusErr := p.settleStatus(ctx, nil, state)
	out.Permanent = out.Permanent && statusErr == nil
	return out, errors.Join(err, statusErr)
}

// pause ends a pass over a parent that is paused. The pause is told once.
func (p *pass) pause(ctx context.Context) (schedule.Outcome, error) {
	status, _ := p.parent.Field("status")
	text := fmt.Sprintf("paused by the annotation %s; remove it to go on", p.Paused)
	if news, again := p.memory.Pause(true); news && !plan.IsPaused(status) {
		p.Logger().InfoContext(ctx, "the parent is paused", "annotation", p.Paused)
		if p.events != nil && !p.Config.DryRun {
			p.journal.Tell(time.Now(), p.parent.UID(), observe.Normal, observe.ReasonPaused, text)
			p.events.TellState(p.parent, observe.Normal, observe.ReasonPaused, text, again)
		}
	}
	if !p.Config.ReadyCondition {
		return schedule.Outcome{}, nil
	}
	out, err := p.settleStatus(ctx, nil, childrenState{failed: true, caused: true, standing: standing(readiness.Failed, plan.ReasonPaused, text)})
	out.Again, out.Err = false, err != nil
	return out, err
}

// noteDropped warns, once, if the API server has dropped the conditions from a status that was
// written.
func (p *pass) noteDropped(made any) {
	if p.Config.ReadyCondition && !plan.KeepsStanding(made) && p.dropped.CompareAndSwap(false, true) {
		p.Logger().Warn("ReadyCondition: the API server drops status.conditions; add them to the schema of the CustomResourceDefinition", "type", p.parent.Type().String())
	}
}

// standWhileDeleting returns what the conditions of a parent tell that is being deleted.
func (p *pass) standWhileDeleting() *plan.Standing {
	if !p.Config.ReadyCondition {
		return nil
	}
	return standing(readiness.InProgress, plan.ReasonDeleting, "the parent is being deleted")
}

// standOffline returns what the conditions would tell after a pass that takes these actions.
func (p *pass) standOffline(planned *plan.Plan, desired []*plan.Desired, resp *handler.SyncResponse, actions int, err error) *plan.Standing {
	if err != nil {
		return p.standAfter(err)
	}
	_, waits := p.waitTexts(planned)
	out, _ := p.stand(outlook{planned: planned, desired: desired, kept: resp.KeepChildren, waits: waits, again: actions > 0})
	return out
}
