package reconcile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/conflict"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// maxReason bounds the reason in a line of the overview, in bytes.
	maxReason = 300
	// longEnough is how long a pass is under way before its parent is told to be pending: most are over before
	// anybody could read it.
	longEnough = time.Second
	// lookAgainAfter is how long the readiness of children that don't change is taken for known.
	lookAgainAfter = 10 * time.Second
)

// A surveyor remembers the readiness of children from survey to survey. It is safe for concurrent use.
type surveyor struct {
	mu struct {
		sync.Mutex
		families map[types.UID]surveyed // by parent
	}
}

// A surveyed says which child of a parent wasn't ready when it was last looked at.
type surveyed struct {
	versions jsonvalue.Digest // of the children
	at       time.Time
	unready  string // which child isn't Current, and why; empty: all are
}

// Survey returns a line about every parent, by namespace and name. It asks nobody, and may be called at any
// time, beside all passes.
func (e *Engine) Survey() []view.Parent {
	now := time.Now()
	seen := map[types.UID]surveyed{}
	var out []view.Parent
	e.survey.mu.Lock()
	defer e.survey.mu.Unlock()
	for _, uid := range e.store.AllParents() {
		parent, children := e.store.Family(uid)
		if parent == nil {
			continue // it has gone since
		}
		known := e.survey.mu.families[uid]
		if versions := versionsOf(children); known.versions != versions || now.Sub(known.at) > lookAgainAfter {
			known = surveyed{versions: versions, at: now, unready: unready(children)}
		}
		seen[uid] = known
		out = append(out, e.line(now, parent, len(children), known.unready))
	}
	e.survey.mu.families = seen // those that have gone are forgotten
	slices.SortFunc(out, func(a, b view.Parent) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// versionsOf returns a digest of which children there are, and in which versions.
func versionsOf(children []*resource.Resource) jsonvalue.Digest {
	var text strings.Builder
	for _, child := range children {
		text.WriteString(string(child.UID()))
		text.WriteByte(' ')
		text.WriteString(child.ResourceVersion())
		text.WriteByte(' ')
	}
	return jsonvalue.Sum(text.String())
}

// unready says which child isn't Current: the first that is Failed, otherwise the first of all; "" if all
// are.
func unready(children []*resource.Resource) string {
	first := ""
	for _, child := range children {
		is := plan.ReadinessOf(child)
		text := object.RefOf(child).String() + " is " + string(is.State) + ": " + is.Message
		switch {
		case is.State == readiness.Failed:
			return text
		case is.State != readiness.Current && first == "":
			first = text
		}
	}
	return first
}

// line returns what there is to say of a parent in a line.
func (e *Engine) line(now time.Time, parent *resource.Resource, children int, unready string) view.Parent {
	uid := parent.UID()
	out := view.Parent{Namespace: parent.Namespace(), Name: parent.Name(), Children: children}
	_, out.LastPass = e.journal.Last(uid)
	situation := e.queue.Glance(uid)
	out.State, out.Reason = e.stateOf(now, parent, situation, unready)
	out.Reason = observe.Shorten(out.Reason, maxReason)
	switch {
	case !situation.Since.IsZero():
		out.Since = situation.Since
	case out.State == explain.Finalizing && parent.DeletionTimestamp() != nil:
		out.Since = parent.DeletionTimestamp().Time
	}
	out.Since, out.LastPass = wholeSeconds(out.Since), wholeSeconds(out.LastPass)
	return out
}

// wholeSeconds returns a time in UTC, without what is finer than a second.
func wholeSeconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Second)
}

// stateOf returns the state of a parent, and why it is in that state. It knows what the process knows, so
// that it is the same as explain's but for what only reads of the API server tell.
func (e *Engine) stateOf(now time.Time, parent *resource.Resource, s schedule.Situation, unready string) (explain.State, string) {
	uid := parent.UID()
	failure := e.memory.LastError(uid)
	loop := e.loops.Current(now, uid)
	if parent.IsDeleting() {
		return explain.Finalizing, cmp.Or(failure, "it is being deleted")
	}
	if paused, _ := parent.Annotation(e.current.Load().Paused); paused == "true" {
		return explain.Paused, "by the annotation " + e.current.Load().Paused
	}
	switch {
	case loop != nil:
		return explain.Throttled, loopText(loop)
	case s.Throttles > 0:
		return explain.Throttled, "something is written again and again"
	case failure != "":
		return explain.Failing, failure
	}
	if s.Queued {
		return explain.Pending, "it waits for a worker"
	}
	if u, under := e.passes.of(uid); under && now.Sub(u.began) >= longEnough {
		return explain.Pending, strings.TrimPrefix(u.text(now), object.RefOf(u.parent).String()+": ")
	}
	if waits := e.memory.Waits(uid); len(waits) > 0 {
		return explain.Waiting, waits[0]
	}
	if unready != "" {
		return explain.NotReady, unready
	}
	return explain.Settled, ""
}

// loopText says what a conflict loop is about.
func loopText(l *conflict.Loop) string {
	text := object.Ref{Type: l.Key.Type, Key: l.Key.Object}.String() + " is written again and again"
	if l.Path != "" {
		text += ": " + l.Path
	}
	if len(l.Values) > 1 { // one alone is that of a Secret, which is hidden
		text += " alternates between " + strings.Join(l.Values, " and ")
	}
	return text
}

// Family returns what this process knows of a parent, with its last passes and Events. It asks nobody, and
// may be called at any time, beside all passes. It returns false if the store doesn't hold the parent.
func (e *Engine) Family(parent types.NamespacedName) (view.Family, bool) {
	held, ok := e.Observed(e.Config.Parent, parent)
	if !ok {
		return view.Family{}, false
	}
	uid := held.UID()
	newest, children := e.store.Family(uid)
	if newest == nil {
		return view.Family{}, false
	}
	number, _ := e.journal.Last(uid)
	out := view.Family{Process: e.Known(parent), Passes: e.journal.Passes(uid), Events: e.journal.Events(uid)}
	versions := append(slices.Clone(children), newest)
	out.Version = versionsOf(versions).String() + " " + strconv.FormatUint(number, 10)
	return out, true
}

// Plots returns what the passes did in the fifteen minutes before now.
func (e *Engine) Plots(now time.Time) journal.Plots { return e.journal.Plots(now) }
