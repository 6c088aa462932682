package reconcile

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// The methods in this file show what an engine knows and does, to tests and to
// the metrics.

// An Activity is what an engine has done and has to do.
type Activity struct {
	Running int    // passes under way
	Due     int    // parents that wait for a worker, or for related objects; one more while departed parents are looked for the first time
	Passes  uint64 // passes that have ended since the start
	Events  int    // Events that wait to be written
}

// Activity returns what the engine has done and has to do.
func (e *Engine) Activity() Activity {
	looking, waiting := e.looking.Load(), e.waitingForRelated() // before the parents that are found, or wait no more, are due
	running, due, passes := e.queue.Activity()
	a := Activity{Running: running, Due: due + waiting, Passes: passes}
	if looking {
		a.Due++
	}
	if e.events != nil {
		a.Events = e.events.Pending()
	}
	return a
}

// Observed returns an object as the engine's store holds it, false if the store
// doesn't.
func (e *Engine) Observed(t resource.Type, key types.NamespacedName) (*resource.Resource, bool) {
	return e.store.Object(object.Ref{Type: t, Key: key})
}

// Snapshot returns what the next call of the handler would get for a parent, but for
// unlabelled objects, which only a pass reads. It returns false if the store doesn't
// hold the parent.
func (e *Engine) Snapshot(parent types.NamespacedName) (*handler.SyncRequest, bool) {
	held, ok := e.Observed(e.Config.Parent, parent)
	if !ok {
		return nil, false
	}
	req, ok := e.snapshot(held.UID())
	if ok && e.related != nil {
		queries, found := e.related.Known(held.UID())
		req.Related = handler.NewObjects(e.withFamily(found, req.Parent, slices.Collect(req.Children.All()), queries)...)
	}
	return req, ok
}

// Related returns what parents refer to and what there is of it, as far as that is known.
func (e *Engine) Related() map[relate.Query][]*resource.Resource {
	if e.related == nil {
		return nil
	}
	return e.related.Answers()
}

// Compare lists the fields in which live doesn't satisfy desired, by the
// comparison that decides about writes. desired is anything that a handler may
// return as a child; its status is compared too.
func (e *Engine) Compare(live *resource.Resource, desired any) ([]merge.Difference, error) {
	want, err := encode.Map(desired)
	if err != nil {
		return nil, err
	}
	return plan.Differences(e.current.Load().Types, live.Type(), live.Unstructured().Object, want), nil
}

// Effects lists what writes have changed of a child, as a plan lists what they would. The
// values of a Secret are hidden.
func (e *Engine) Effects(before, after *resource.Resource) []plan.FieldChange {
	s := e.current.Load()
	k := s.Types.Of(before.Type())
	if k == nil {
		return nil
	}
	return plan.Effects(s, k, before, after)
}

// Errors returns the newest 100 errors of a parent's passes, oldest first: those
// of the handler, of invalid responses and of writes. There are none without
// Config.KeepHistory.
func (e *Engine) Errors(parent types.NamespacedName) []error { return e.history.errorsOf(parent) }

// AllErrors returns what Errors returns of every parent that has any.
func (e *Engine) AllErrors() map[types.NamespacedName][]error { return e.history.allErrors() }

// HandlerFailed says whether an error of a pass is the handler's doing: that of a call, or that
// of a response that the engine refuses.
func HandlerFailed(err error) bool {
	if _, ok := errors.AsType[*HandlerError](err); ok {
		return true
	}
	_, ok := errors.AsType[*plan.InvalidResponseError](err)
	return ok
}

// Waits says what the last pass over a parent waited for, nil if it was nothing.
func (e *Engine) Waits(parent types.NamespacedName) []string {
	held, ok := e.Observed(e.Config.Parent, parent)
	if !ok {
		return nil
	}
	return slices.Clone(e.memory.Waits(held.UID()))
}

// Loops returns the conflict loops found so far, oldest first. There are none
// without Config.KeepHistory.
func (e *Engine) Loops() []Loop { return e.history.allLoops() }

// Sizes returns how many entries each map has that is kept by parent or by child,
// so that a test sees what isn't forgotten.
func (e *Engine) Sizes() map[string]int {
	out := map[string]int{"remembered parents": e.memory.Len(), "loops": e.loops.Len()}
	e.store.Sizes(out)
	e.queue.Sizes(out)
	if e.related != nil {
		e.related.Sizes(out)
	}
	return out
}

// Gauges returns the values that the metrics show of the present. leading says
// whether this process may write.
func (e *Engine) Gauges(leading bool) observe.Gauges {
	running, due, _ := e.queue.Activity()
	values := observe.Gauges{Due: due, Running: running, Workers: e.Config.MaxConcurrentSyncs, Leading: leading}
	values.Longest, values.Long = e.passes.longest(time.Now())
	values.Parents, _ = e.store.Usage(e.Config.Parent)
	for _, k := range e.types().All() {
		objects, bytes := e.store.Usage(k.Type)
		values.Store = append(values.Store, observe.StoreUsage{Type: k.Type, Objects: objects, Bytes: bytes})
	}
	if e.related != nil {
		values.Related = e.related.Usage()
	}
	values.Heard = map[resource.Type]time.Time{}
	for _, w := range e.Running() {
		at := w.HeardAt()
		if at.IsZero() {
			continue // the first list hasn't arrived
		}
		if was, ok := values.Heard[w.Kind.Type]; !ok || at.Before(was) {
			values.Heard[w.Kind.Type] = at
		}
	}
	return values
}
