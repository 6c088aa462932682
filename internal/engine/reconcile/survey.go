package reconcile

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sort"
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
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// maxReason bounds the reason in a line of the overview, in bytes.
	maxReason = 300
	// longEnough is how long a pass is under way before its parent is told to be pending: most are over before
	// anybody could read it.
	longEnough = time.Second
)

// A surveyor remembers the readiness of children from survey to survey. It is safe for concurrent use.
type surveyor struct {
	seed maphash.Seed // of versionsOf

	mu struct {
		sync.Mutex
		families map[types.UID]*surveyed // by parent
		order    []types.UID             // the parents of the last survey, by namespace and name
		surveys  uint64                  // so far
	}
}

// A surveyed says which child of a parent wasn't ready when it was last looked at.
type surveyed struct {
	versions uint64    // of the children
	expires  time.Time // when that may change by itself; zero: it doesn't
	unready  string    // which child isn't Current, and why; empty: all are
	survey   uint64    // the number of the last survey that has found the parent
}

// Survey returns a line about every parent, by namespace and name. It asks nobody, and may be called at any
// time, beside all passes. Its cost for a parent whose children haven't changed doesn't depend on what they contain.
func (e *Engine) Survey() []view.Parent {
	now := time.Now()
	s := &e.survey.mu
	s.Lock()
	defer s.Unlock()
	if s.families == nil {
		s.families = map[types.UID]*surveyed{}
	}
	s.surveys++
	out, uids := make([]view.Parent, 0, len(s.order)), make([]types.UID, 0, len(s.order))
	add := func(uid types.UID) {
		known := s.families[uid]
		if known != nil && known.survey == s.surveys {
			return
		}
		parent, children := e.store.Family(uid)
		if parent == nil {
			return // it has gone since
		}
		if known == nil {
			known = &surveyed{}
			s.families[uid] = known
		}
		known.survey = s.surveys
		known.look(now, e.survey.versionsOf(children), children)
		out, uids = append(out, e.line(now, parent, len(children), known.unready)), append(uids, uid)
	}
	for _, uid := range s.order { // so that there is next to nothing to sort
		add(uid)
	}
	for _, uid := range e.store.AllParents() {
		add(uid)
	}
	if len(s.families) > len(out) {
		maps.DeleteFunc(s.families, func(_ types.UID, known *surveyed) bool { return known.survey != s.surveys })
	}
	s.order = uids
	lines := &byName{out, uids}
	if !sort.IsSorted(lines) {
		sort.Sort(lines)
	}
	return out
}

// byName sorts lines of a survey, and the UIDs of their parents along with them.
type byName struct {
	lines []view.Parent
	uids  []types.UID
}

func (b *byName) Len() int { return len(b.lines) }

func (b *byName) Less(i, j int) bool {
	one, other := &b.lines[i], &b.lines[j]
	return cmp.Or(strings.Compare(one.Namespace, other.Namespace), strings.Compare(one.Name, other.Name)) < 0
}

func (b *byName) Swap(i, j int) {
	b.lines[i], b.lines[j] = b.lines[j], b.lines[i]
	b.uids[i], b.uids[j] = b.uids[j], b.uids[i]
}

// look looks at the children of the parent, if they may not be as they were. versions is what versionsOf returns.
func (s *surveyed) look(now time.Time, versions uint64, children []*resource.Resource) {
	if versions == s.versions && (s.expires.IsZero() || now.Before(s.expires)) {
		return
	}
	var in time.Duration
	s.versions, s.expires = versions, time.Time{}
	if s.unready, in = unready(now, children); in > 0 {
		s.expires = now.Add(in)
	}
}

// versionsOf returns a hash of which children there are, and in which versions. It differs from engine to engine.
func (s *surveyor) versionsOf(children []*resource.Resource) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, child := range children {
		_, _ = h.WriteString(string(child.UID())) // it never fails
		_ = h.WriteByte(' ')
		_, _ = h.WriteString(child.ResourceVersion())
		_ = h.WriteByte(' ')
	}
	return h.Sum64()
}

// unready says which child isn't Current: the first that is Failed, otherwise the first of all; "" if all
// are. It also returns in how long that may change by itself, zero if it doesn't.
func unready(now time.Time, children []*resource.Resource) (first string, expires time.Duration) {
	for _, child := range children {
		is, in := plan.ReadinessAt(child, now)
		expires = schedule.Soonest(expires, in)
		if is.State == readiness.Current || is.State != readiness.Failed && first != "" {
			continue
		}
		text := object.RefOf(child).String() + " is " + string(is.State) + ": " + is.Message
		if is.State == readiness.Failed {
			return text, 0
		}
		first = text
	}
	return first, expires
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
	if e.current.Load().IsPaused(parent) {
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
	out.Version = strconv.FormatUint(e.survey.versionsOf(versions), 16) + " " + strconv.FormatUint(number, 10)
	return out, true
}

// Plots returns what the passes did in the fifteen minutes before now.
func (e *Engine) Plots(now time.Time) journal.Plots { return e.journal.Plots(now) }
