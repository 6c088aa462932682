package reconcile

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// What is told of a pass: its log lines, its Events, its span and its counters.

// A passLog is how the lines of a pass are told from those of others. It is made
// when there is something to say.
type passLog struct {
	once sync.Once
	id   string
}

// Logger returns the logger of the pass, which names the pass and its parent in
// each line.
func (p *pass) Logger() *slog.Logger { return p.Engine.log.With(p.identity(0)...) }

// identity returns what every line of the pass tells, with room for more
// arguments.
func (p *pass) identity(room int) []any {
	return append(make([]any, 0, 6+room), "syncID", p.id(), "namespace", p.req.Parent.Namespace(), "name", p.req.Parent.Name())
}

// id returns the identifier of the pass in its lines and its span. It is safe
// for concurrent use.
func (p *pass) id() string {
	p.lines.once.Do(func() {
		p.lines.id = hex.EncodeToString(binary.BigEndian.AppendUint32(nil, rand.Uint32()))
	})
	return p.lines.id
}

// summary returns what the line about a pass tells.
func (p *pass) summary(d schedule.Due, took time.Duration) []any {
	args := append(p.identity(10), "trigger", string(d.Trigger), "duration", took)
	if d.More > 0 {
		args = append(args, "moreTriggers", d.More)
	}
	if n := len(p.did); n > apierror.MaxListed {
		args = append(args, "did", p.did[:apierror.MaxListed], "didMore", n-apierror.MaxListed)
	} else if n > 0 {
		args = append(args, "did", p.did)
	}
	return args
}

// trace begins the span of the pass.
func (p *pass) trace(ctx context.Context, d schedule.Due) (context.Context, *observe.Span) {
	if p.tracing == nil {
		return ctx, nil
	}
	method := observe.MethodSync
	if p.parent.IsDeleting() {
		method = observe.MethodFinalize
	}
	return p.tracing.Pass(ctx, method, p.parent, string(d.Trigger), p.id())
}

// count counts what became of an action.
func (p *pass) count(r *apply.Result) {
	a := r.Action
	switch {
	case r.Await:
		p.metrics.Wrote(a.Ref.Type, string(a.Verb), observe.WriteConflict)
	case r.Err != nil:
		p.metrics.Wrote(a.Ref.Type, string(a.Verb), observe.WriteError)
	case r.Redundant:
		p.metrics.Wrote(a.Ref.Type, string(a.Verb), observe.WriteRedundant)
	case r.Wrote:
		p.metrics.Wrote(a.Ref.Type, string(a.Verb), observe.WriteSuccess)
	}
	switch a.Verb {
	case plan.VerbUpdate, plan.VerbApply, plan.VerbRecreate:
		if r.Wrote || r.Err != nil || r.Await {
			p.metrics.Corrected(a.Ref.Type, len(a.Diffs))
		}
	}
}

// event records an Event on the parent, or on what became of it.
func (e *Engine) event(on *resource.Resource, kind, reason, note string) {
	if e.events == nil || e.Config.DryRun {
		return
	}
	e.events.Tell(on, kind, reason, note)
}

// emit records the handler's own Events.
func (p *pass) emit(list []handler.Event) {
	for _, e := range list {
		kind := e.Type
		if kind != observe.Warning {
			kind = observe.Normal
		}
		p.event(p.parent, kind, e.Reason, e.Message)
	}
}

// reasonOf returns the reason of the Event that tells of an error.
func reasonOf(err error, deleting bool) string {
	if _, ok := errors.AsType[*plan.InvalidResponseError](err); ok {
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

// told returns the reason and the beginning of the Event about a verb; an empty
// reason if the verb does nothing that anyone but the engine would see.
func told(v plan.Verb, claimed bool) (reason, note string) {
	switch {
	case v == plan.VerbCreate && claimed:
		return observe.ReasonAdopted, "adopted"
	case v == plan.VerbCreate:
		return observe.ReasonCreated, "created"
	case v == plan.VerbUpdate, v == plan.VerbApply:
		return observe.ReasonUpdated, "updated"
	case v == plan.VerbRecreate:
		return observe.ReasonRecreated, "deleted, to be created anew:"
	case v == plan.VerbDelete:
		return observe.ReasonDeleted, "deleted"
	}
	return "", ""
}

// tellWrites records what a pass has written: one Event for all children that
// have met the same, however many they are.
func (p *pass) tellWrites() {
	written := map[string][]string{} // reason -> children
	var order []string
	notes := map[string]string{}
	for _, r := range p.results {
		if !r.Wrote {
			continue
		}
		reason, note := told(r.Action.Verb, r.Claimed)
		if reason == "" {
			continue
		}
		if written[reason] == nil {
			order = append(order, reason)
			notes[reason] = note
		}
		written[reason] = append(written[reason], p.nameOf(r.Action.Ref))
	}
	for _, reason := range order {
		p.event(p.parent, observe.Normal, reason, notes[reason]+" "+listed(written[reason]))
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

// listed returns as many of the names as fit into an Event, and how many more
// there are.
func listed(names []string) string {
	const room = observe.MaxEventNote - 100 // for what stands before and after
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
