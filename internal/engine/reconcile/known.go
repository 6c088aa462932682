package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/explain"
)

// Known returns what this process knows of a parent and nobody else. It may be called at any time, beside
// all passes.
func (e *Engine) Known(parent types.NamespacedName) explain.Process {
	held, ok := e.Observed(e.Config.Parent, parent)
	if !ok {
		return explain.Process{}
	}
	uid, now := held.UID(), time.Now()
	out := explain.Process{
		Held: true, LastError: e.memory.LastError(uid), ChildErrors: explain.ChildErrorsOf(e.memory.LastErrors(uid)), Waits: e.memory.Waits(uid),
	}
	s := e.queue.Situation(uid)
	out.Running, out.Queued, out.Place, out.Trigger, out.Failures = s.Running, s.Queued, s.Place, string(s.Trigger), s.Failures
	out.NextPass, out.FailingSince = timeOrNil(s.Next), timeOrNil(s.Since)
	out.Throttled = s.Throttles > 0
	if u, ok := e.passes.of(uid); ok {
		out.RunningSince, out.Call = timeOrNil(u.began), u.call
	}
	if found := e.loops.Current(now, uid); found != nil {
		key := found.Key
		out.Throttled = true
		out.Loop = &explain.Loop{
			Object: explain.Object{APIVersion: key.Type.APIVersion, Kind: key.Type.Kind, Namespace: key.Object.Namespace, Name: key.Object.Name},
			Path:   found.Path, Values: found.Values, Writes: found.Writes,
		}
	}
	return out
}

// timeOrNil returns a time as a pointer, nil for the zero time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
