package plan

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Rejection is the API server's answer to a write that corrects drift: another client has changed fields of a child, whose
// desired state is the same as before. These fields keep their live values, and nothing waits for that.
type Rejection struct {
	Diffs   []merge.Difference
	Err     error                       // the API server's
	Entries []metav1.ManagedFieldsEntry // of the child before anything else was corrected; nil: not known
	Untried bool                        // nothing was sent, since others of its batch are rejected
}

// A keptDrift is what is remembered of a Rejection. It holds for one object and one desired state, and counts as kept until the
// correction is tried again.
type keptDrift struct {
	uid   types.UID
	hash  jsonvalue.Digest // of the desired state
	paths []string         // sorted
	// timed: it is tried again without another cause. A 422 is not before the object has changed, which then has another resourceVersion
	// than version.
	timed   bool
	version string
	retry
}

// has reports whether the correction of the field at a path was rejected. d may be nil.
func (d *keptDrift) has(path string) bool {
	if d == nil {
		return false
	}
	_, ok := slices.BinarySearch(d.paths, path)
	return ok
}

// split splits differences into those at paths whose correction was rejected, and the others. d may be nil.
func (d *keptDrift) split(diffs []merge.Difference) (kept, others []merge.Difference) {
	if d == nil {
		return nil, diffs
	}
	for _, diff := range diffs {
		if d.has(diff.Path) {
			kept = append(kept, diff)
		} else {
			others = append(others, diff)
		}
	}
	return kept, others
}

// drift returns the drift of a live child that is left as it is, nil if there is none. due reports whether its correction is to
// be tried again.
func (p *ParentMemory) drift(d *Desired, live *resource.Resource, now time.Time) (kept *keptDrift, due bool) {
	kept = p.drifts[d.ref]
	switch {
	case kept == nil, live == nil, kept.uid != live.UID(), kept.hash != d.hash:
		return nil, false
	case kept.due(now):
		return nil, true
	}
	return kept, false
}

// AcceptAction remembers that live, which still differs in rest, is what the API server made of the desired state of an action.
// news reports whether a Rejection names other fields than the last one.
func (p *ParentMemory) AcceptAction(a *Action, live *resource.Resource, rest []merge.Difference, now time.Time, backoff func(n int) time.Duration) (news bool) {
	before := p.drifts[a.Want.ref]
	if before != nil && (before.uid != live.UID() || before.hash != a.Want.hash) {
		before = nil
	}
	next := before
	switch {
	case a.Rejection != nil:
		next = &keptDrift{uid: live.UID(), hash: a.Want.hash, timed: !apierrors.IsInvalid(a.Rejection.Err) || a.Rejection.Untried, version: live.ResourceVersion()}
		for _, d := range slices.Concat(a.Rejection.Diffs, a.kept.rejected) {
			next.paths = append(next.paths, d.Path)
		}
		slices.Sort(next.paths)
		next.paths = slices.Compact(next.paths)
		same := before != nil && slices.Equal(before.paths, next.paths)
		if same {
			next.retry = before.retry
		}
		if a.Rejection.Untried {
			next.at = now.Add(hastened)
			break
		}
		news = next.tries == 0
		next.failed(now, func(n int) time.Duration { return max(hastened, backoff(n)) })
	case len(a.kept.rejected) == 0:
		next = nil
	default:
		next.met(live)
	}
	p.setDrift(a.Want, next)
	_, rest = next.split(rest)
	p.Accept(a.Want, live, rest)
	return news
}

// met notes a state of the object in which the drift was left as it is. d may be nil.
func (d *keptDrift) met(live *resource.Resource) {
	if d != nil && d.version != live.ResourceVersion() {
		d.timed = true
	}
}

func (p *ParentMemory) setDrift(d *Desired, next *keptDrift) {
	switch {
	case next == nil:
		delete(p.drifts, d.ref)
	case p.drifts == nil:
		p.drifts = map[object.Ref]*keptDrift{d.ref: next}
	default:
		p.drifts[d.ref] = next
	}
}

// DriftIn returns how long after now the first rejected correction is tried again that nothing else may bring about; zero: there
// is none.
func (p *ParentMemory) DriftIn(now time.Time) (first time.Duration) {
	for _, d := range p.drifts {
		if in := d.in(now); d.timed && (first == 0 || in < first) {
			first = in
		}
	}
	return first
}
