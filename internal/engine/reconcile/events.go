package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// event records an Event on a parent. A dry run records none.
func (e *Engine) event(on *resource.Resource, kind, reason, note string) {
	e.record((*observe.EventSink).Tell, on, kind, reason, note)
}

// record is event by either method of the EventSink.
func (e *Engine) record(by func(s *observe.EventSink, on *resource.Resource, kind, reason, note string), on *resource.Resource, kind, reason, note string) {
	if e.events == nil || e.Config.DryRun {
		return
	}
	e.journal.Tell(time.Now(), on.UID(), kind, reason, note)
	by(e.events, on, kind, reason, note)
}

// unnamedEvent is the reason of an Event of the handler that says none. The API server refuses an Event without.
const unnamedEvent = "Unspecified"

// handlerMistakes are the mistakes in a handler's responses that were told of, each once: Events without a reason or of
// an unknown type, and a delay that is too short.
type handlerMistakes struct{ reason, kind, delay sync.Once }

// emit records the handler's own Events. One whose reason or type the API server would refuse is
// recorded with another one: its message may matter.
func (p *pass) emit(list []handler.Event) {
	for i, e := range list {
		reason := e.Reason
		if reason == "" {
			reason = unnamedEvent
			p.mistakes.reason.Do(func() {
				p.Logger().Warn("the handler's response has an Event without a Reason, which is recorded with another one", "event", i, "reason", reason)
			})
		}
		p.record((*observe.EventSink).Relay, p.parent, p.eventType(i, e), reason, e.Message)
	}
}

// eventType returns the type of the handler's Event at position i.
func (p *pass) eventType(i int, e handler.Event) string {
	switch {
	case e.Type == "", strings.EqualFold(e.Type, observe.Normal):
		return observe.Normal
	case !strings.EqualFold(e.Type, observe.Warning):
		p.mistakes.kind.Do(func() {
			p.Logger().Warn("the handler's response has an Event of a Type that there isn't, which is recorded as a Warning", "event", i, "type", e.Type)
		})
	}
	return observe.Warning
}

// reasonOf returns the reason of the Event about an error. deleting says whether
// the parent is being deleted.
func reasonOf(err error, deleting bool) string {
	if isInvalid(err) {
		return observe.ReasonInvalidResponse
	}
	if _, ok := errors.AsType[*apply.NameTakenError](err); ok {
		return observe.ReasonNameConflict
	}
	if deleting {
		return observe.ReasonFinalizeFailed
	}
	return observe.ReasonSyncFailed
}

// isInvalid says whether a pass has failed since the handler's response is invalid. That of a
// handler that has failed is none.
func isInvalid(err error) bool {
	_, failed := errors.AsType[*HandlerError](err)
	_, invalid := errors.AsType[*plan.InvalidResponseError](err)
	return invalid && !failed
}

// eventOf returns the reason of the Event about an action that was carried out,
// and the first words of its note. The reason is empty if nobody but the engine
// would see what the action has changed.
func eventOf(v plan.Verb) (reason, note string) {
	switch v {
	case plan.VerbAdopt:
		return observe.ReasonAdopted, "adopted"
	case plan.VerbCreate:
		return observe.ReasonCreated, "created"
	case plan.VerbUpdate, plan.VerbApply, plan.VerbRelease:
		return observe.ReasonUpdated, "updated"
	case plan.VerbRecreate:
		return observe.ReasonRecreated, "deleted, to be created anew:"
	case plan.VerbDelete:
		return observe.ReasonDeleted, "deleted"
	}
	return "", ""
}

// emitWrites records what the pass has written: one Event for each reason, which
// names the children, however many they are.
func (p *pass) emitWrites() {
	written := map[string][]string{} // reason -> names of children
	var order []string
	notes := map[string]string{}
	for _, r := range p.results {
		if !r.Wrote {
			continue
		}
		reason, note := eventOf(r.Did())
		if reason == "" || p.marked(&r) {
			continue
		}
		if written[reason] == nil {
			order = append(order, reason)
			notes[reason] = note
		}
		written[reason] = append(written[reason], p.nameOf(r.Action.Ref))
	}
	for _, reason := range order {
		p.event(p.parent, observe.Normal, reason, notes[reason]+" "+joinNames(written[reason]))
	}
}

// marked says whether an update for which there was no difference has changed nothing
// but the engine's mark.
func (p *pass) marked(r *apply.Result) bool {
	a := r.Action
	return a.Live != nil && a.Want != nil && r.Live != nil && len(a.Diffs) == 0 && !r.Claimed && plan.ChangesNothing(p.Settings, a.Live, r.Live)
}

// tellUntried logs and records the children that are deleted to be created anew,
// though nobody could ask whether the API server takes their new state.
func (p *pass) tellUntried() {
	for _, r := range p.results {
		if r.Untried != nil {
			p.Logger().Warn("a child is recreated, though its new state couldn't be tried before", "child", r.Action.Ref.String(), "reason", r.Untried)
			p.event(p.parent, observe.Warning, observe.ReasonRecreatedUntried, "recreated, though the new state couldn't be tried before: "+r.Untried.Error())
		}
	}
}

// tellWaits logs and records what the pass waits for, each once until the wait is
// over.
func (p *pass) tellWaits(texts []string) {
	for _, text := range p.memory.Wait(texts) {
		p.Logger().Info("waiting for a child", "reason", text)
		p.event(p.parent, observe.Normal, observe.ReasonWaiting, text)
	}
}

// nameOf returns the kind and name of a child, and its namespace if that isn't
// the parent's.
func (p *pass) nameOf(child object.Ref) string {
	if child.Key.Namespace == p.parent.Namespace() {
		return child.Type.Kind + " " + child.Key.Name
	}
	return child.String()
}

// joinNames joins as many of the names as fit into an Event, and says how many
// it has left out.
func joinNames(names []string) string {
	return joinNamesIn(names, observe.MaxEventNote-100) // the rest is for what stands before and after
}

// joinNamesIn joins as many of the names as fit into room bytes, and says how many it has
// left out.
func joinNamesIn(names []string, room int) string {
	shown, size := 0, 0
	for shown < len(names) && shown < apierror.MaxListed && size+len(names[shown]) < room {
		size += len(names[shown]) + len(", ")
		shown++
	}
	text := strings.Join(names[:shown], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
