package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// verbStatus is the verb of a write of the parent's status, in logs, metrics, spans and the journal.
const verbStatus = "update status"

// A childrenState is what settleStatus has to know of the children.
type childrenState struct {
	changed bool // the pass has changed a child
	failed  bool // a child could not be written
	waits   bool // a desired child isn't there, or isn't as desired, since something else has to come first
	caused  bool // somebody else has changed the parent or a child, or the next pass is delayed anyway

	standing *plan.Standing // what is in the way of the parent; nil without config.Operator.ReadyCondition
}

// A desiredStatus is the status that a handler has returned, as JSON values. A nil
// *desiredStatus leaves the status alone.
type desiredStatus struct {
	value any
	kept  bool // it is the present one: the handler leaves it alone, but the engine may have conditions to write
}

// desireStatus reads the status that a handler has returned. The error is a
// plan.InvalidResponseError, which says why it can't be one.
func (p *pass) desireStatus(status any) (*desiredStatus, error) {
	if isNil(status) {
		return nil, nil
	}
	raw, err := p.encodeStatus(status)
	if err != nil {
		return nil, plan.InvalidStatus(p.parent, err)
	}
	wrapped, err := encode.Map(json.RawMessage(append(append([]byte(`{"status":`), raw...), '}')))
	if err != nil {
		return nil, plan.InvalidStatus(p.parent, err)
	}
	want := &desiredStatus{value: jsonvalue.NullFree(wrapped["status"])}
	if want.value == nil {
		return nil, nil // it is null in JSON alone
	}
	if err := plan.CheckConditions(want.value); err != nil {
		return nil, plan.InvalidStatus(p.parent, err)
	}
	if p.Config.ReadyCondition {
		if err := plan.CheckKeepsConditions(want.value); err != nil {
			return nil, plan.InvalidStatus(p.parent, err)
		}
	}
	return want, nil
}

// settleStatus writes the parent's status if it differs from status, which is the
// handler's. A pass that has changed children leaves the status to the next pass,
// which follows at once and sees the new children, but not twice in a row. If the API
// server refuses the handler's status, the conditions that the engine keeps say so beside
// the present one.
func (p *pass) settleStatus(ctx context.Context, status *desiredStatus, children childrenState) (schedule.Outcome, error) {
	out, err := p.settle(ctx, status, children)
	if err == nil || status == nil || children.standing == nil || p.Config.DryRun || !apierror.OnlyRefusals(err) {
		return out, err
	}
	standing := children.standing
	if standing.State != readiness.Failed {
		standing = standOfWrites(err)
	}
	p.memory.BesideStatus(func() {
		_, told := p.settle(ctx, nil, childrenState{failed: true, caused: true, standing: standing})
		if told != nil && !apierror.OnlyRefusals(told) {
			err = errors.Join(err, told)
		}
	})
	return out, err
}

// settle is settleStatus for one status.
func (p *pass) settle(ctx context.Context, status *desiredStatus, children childrenState) (schedule.Outcome, error) {
	if children.standing != nil {
		p.stood = true
		status = p.orPresent(status)
	}
	if status == nil {
		p.memory.DeferStatus(false)
		p.memory.ForgetRefusal()
		return schedule.Outcome{}, nil
	}
	if !p.Types.Parent.HasStatus {
		return schedule.Outcome{}, fmt.Errorf("%s: status: the CustomResourceDefinition has no status subresource in version %s; add `subresources: {status: {}}` to it, or return a nil Status (and set no ReadyCondition)",
			object.RefOf(p.parent), p.parent.Type().GroupVersionKind().Version)
	}
	if p.Config.DryRun && !children.failed && p.foreseesChildren() {
		return schedule.Outcome{}, nil // the status after these changes isn't known yet
	}
	incomplete := children.failed || children.waits
	if p.memory.DeferStatus(children.changed && !incomplete) {
		return schedule.Outcome{}, nil
	}
	live, _ := p.parent.Field("status")
	live = jsonvalue.NullFree(live)
	want := p.completeStatus(status, live, completion{incomplete, children.standing, time.Now()})
	switch {
	case jsonvalue.Equal(want, live), p.memory.KnowsStatus(want, live):
		p.memory.ForgetRefusal()
		return schedule.Outcome{}, nil
	case p.Config.DryRun:
		return schedule.Outcome{}, p.foreseeStatus(ctx, want, live)
	}
	if err := p.memory.StatusRefused(want, time.Now()); err != nil {
		return schedule.Outcome{}, err
	}
	return p.writeStatus(ctx, want, live, children.caused)
}

// writeStatus replaces live, the parent's status, by want. caused is as in childrenState.
func (p *pass) writeStatus(ctx context.Context, want, live any, caused bool) (schedule.Outcome, error) {
	restores := p.memory.WroteStatus() && !p.memory.LeftStatus(live)
	if restores {
		p.findStatusRival(ctx, live)
	}
	ctx, span := p.tracing.Write(ctx, verbStatus, object.RefOf(p.parent))
	begin := time.Now()
	answer, err := p.updateStatus(ctx, want)
	if apierrors.IsConflict(err) && p.memory.LosesStatus() && p.renewParent(ctx, live) {
		answer, err = p.updateStatus(ctx, want)
	}
	span.End(err)
	redundant := err == nil && answer.ResourceVersion() == p.parent.ResourceVersion() // the server saw no difference
	p.noteStatus(begin, want, live, redundant, err)
	if redundant {
		p.metrics.Wrote(p.parent.Type(), verbStatus, observe.WriteRedundant)
	} else {
		p.metrics.Wrote(p.parent.Type(), verbStatus, observe.WriteResult(err))
	}
	outdated := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	switch {
	case outdated && (!p.memory.AwaitsStatus(p.parent.ResourceVersion()) || !p.parentUnchanged(ctx)):
		p.memory.ForgetRefusal() // the newer parent is here or on its way
		held, ok := p.store.Parent(p.parent.UID())
		newer := ok && held.ResourceVersion() != p.parent.ResourceVersion()
		return schedule.Outcome{Resync: watchDelay, Again: newer}, nil
	case err != nil:
		err = fmt.Errorf("%s: status: %w", object.RefOf(p.parent), err)
		if outdated || apierror.IsNo(err) {
			err = &apierror.RefusedError{Err: err}
			p.memory.RefuseStatus(want, err, time.Now(), p.queue.Backoff)
		}
		return schedule.Outcome{}, err
	}
	told := p.memory.LeftStatus(live) && plan.OnlyTellsOfLoop(want, live) // to count that would make it a loop of its own
	made, _ := answer.Field("status")
	p.memory.AcceptStatus(want, jsonvalue.NullFree(made))
	p.noteDropped(made)
	if redundant {
		return schedule.Outcome{}, nil
	}
	p.wrote(verbStatus)
	if !told {
		p.countStatus(want, live, caused, restores)
	}
	p.parent = answer
	return schedule.Outcome{Again: true}, nil
}

// updateStatus sends an update of the parent's status.
func (p *pass) updateStatus(ctx context.Context, want any) (*resource.Resource, error) {
	return p.client.Update(client.WarningsTo(ctx, p, object.RefOf(p.parent)), p.Types.Parent, p.parent.Key(), "status", p.withStatus(want), false)
}

// renewParent reads the parent, of whose status live is the present one. It reports whether another client has changed no
// more than metadata. Then p.parent is the newest state, and the status that the handler has returned still holds: so it is
// written although the metadata change during each call of a slow handler.
func (p *pass) renewParent(ctx context.Context, live any) bool {
	newest, err := p.client.Get(ctx, p.Types.Parent, p.parent.Key())
	switch {
	case err != nil, newest.UID() != p.parent.UID(), newest.ResourceVersion() == p.parent.ResourceVersion():
		return false
	case newest.Generation() == 0, newest.Generation() != p.parent.Generation(), newest.IsDeleting() != p.parent.IsDeleting():
		return false
	case !p.Selects(newest), p.IsPaused(newest) != p.IsPaused(p.parent): // what follows from that comes first
		return false
	}
	if status, _ := newest.Field("status"); !jsonvalue.Equal(jsonvalue.NullFree(status), live) {
		return false
	}
	p.changed(p.store.Read(newest), schedule.Fresh, schedule.Trigger(object.RefOf(newest).String()))
	p.parent = newest
	return true
}

// withStatus returns the body of a request that gives the parent another status.
func (p *pass) withStatus(status any) map[string]any {
	body := p.parent.Unstructured().Object
	body["status"] = status
	return body
}

// orPresent returns the present status for a nil one.
func (p *pass) orPresent(status *desiredStatus) *desiredStatus {
	if status != nil {
		return status
	}
	live, _ := p.parent.Field("status")
	return &desiredStatus{value: plan.KeepingConditions(jsonvalue.NullFree(live)), kept: true}
}

// A completion is what a status is completed by.
type completion struct {
	incomplete bool           // not all children are as desired
	standing   *plan.Standing // what is in the way; nil: the engine keeps no conditions of its own
	now        time.Time      // zero: conditions are given no time
}

// completeStatus returns the handler's status with what the handler leaves to the engine.
// That is observedGeneration if the status is an object, the times and generations of
// its conditions, and the conditions that the engine keeps itself. The generation is that of
// the parent that the handler was shown. If the completion is incomplete, observedGeneration stays
// what it is, but not that of the conditions. Where the conditions tell what is in the way, it
// needn't. live is the present status.
func (p *pass) completeStatus(status *desiredStatus, live any, by completion) any {
	fields, ok := status.value.(map[string]any)
	if !ok {
		return status.value
	}
	delete(fields, "observedGeneration")
	if !by.incomplete || by.standing != nil {
		if g := p.parent.Generation(); g > 0 {
			fields["observedGeneration"] = g
		}
	} else if old, ok := p.parent.Field("status", "observedGeneration"); ok {
		fields["observedGeneration"] = old
	}
	if by.standing != nil {
		plan.SetStanding(fields, *by.standing, live, p.parent.Generation(), !status.kept)
	}
	p.memory.CompleteConditions(fields, live, p.parent.Generation(), by.now)
	return fields
}

// isNil says whether a handler's status is nil, or holds a nil pointer, map or
// slice: the status is to be left alone.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return rv.IsNil()
	}
	return false
}
