package plan

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

const (
	// maxAncestors bounds how many parents a Lineage names.
	maxAncestors = 32
	// maxChain bounds how many passes may follow from one another before they count as a circle,
	// whether a Lineage has room to say so or not.
	maxChain = 64
	// maxTimes bounds how often a Lineage says that a parent was passed. It is far beyond what counts.
	maxTimes = 1000
	// maxTraced is how many writes Lineages remember at least.
	maxTraced = 16 << 10
)

// A Lineage says what a pass follows from, if nothing has set it off but writes of other
// passes: over which parents those were, and how often over each. They followed from one
// another in turn, back to a pass that somebody else has set off. So a parent that is named
// often is in a circle. A Lineage is immutable, and nil names nobody.
type Lineage struct {
	ancestors []ancestor // sorted by parent
	length    int        // how many passes followed from one another
}

type ancestor struct {
	parent uint64 // a hash of its UID
	times  int
}

func byParent(a ancestor, parent uint64) int { return cmp.Compare(a.parent, parent) }

// times returns how often a parent is named.
func (l *Lineage) times(parent uint64) int {
	if l == nil {
		return 0
	}
	at, ok := slices.BinarySearchFunc(l.ancestors, parent, byParent)
	if !ok {
		return 0
	}
	return l.ancestors[at].times
}

// circles says whether a pass over a parent that follows from l is in a circle: three passes
// over that parent are in it already, or too many over any.
func (l *Lineage) circles(parent uint64) bool {
	return l != nil && (l.length > maxChain || l.times(parent) > followUps)
}

// with returns what follows from a pass over a parent that follows from l.
func (l *Lineage) with(parent uint64) *Lineage {
	out := &Lineage{length: 1}
	if l != nil {
		out.ancestors, out.length = slices.Clone(l.ancestors), min(l.length, maxChain)+1
	}
	at, ok := slices.BinarySearchFunc(out.ancestors, parent, byParent)
	if !ok {
		out.ancestors = slices.Insert(out.ancestors, at, ancestor{parent: parent})
	}
	out.ancestors[at].times = min(out.ancestors[at].times+1, maxTimes)
	if len(out.ancestors) > maxAncestors {
		out.dropRarest(parent)
	}
	return out
}

// dropRarest drops the ancestor that is named least often, and isn't but.
func (l *Lineage) dropRarest(but uint64) {
	least := -1
	for i, a := range l.ancestors {
		if a.parent != but && (least < 0 || a.times < l.ancestors[least].times) {
			least = i
		}
	}
	l.ancestors = slices.Delete(l.ancestors, least, least+1)
}

// and returns what both lineages name, each parent as often as the one that names it more
// often.
func (l *Lineage) and(other *Lineage) *Lineage {
	switch {
	case l == nil || l == other:
		return other
	case other == nil:
		return l
	}
	out := &Lineage{ancestors: slices.Clone(l.ancestors), length: max(l.length, other.length)}
	for _, a := range other.ancestors {
		at, ok := slices.BinarySearchFunc(out.ancestors, a.parent, byParent)
		switch {
		case ok:
			out.ancestors[at].times = max(out.ancestors[at].times, a.times)
		case len(out.ancestors) < maxAncestors:
			out.ancestors = slices.Insert(out.ancestors, at, a)
		}
	}
	return out
}

// Lineages remember the newest writes of operators, and what each of them followed from. So
// an operator can tell what its own passes have changed of a related object from what others
// have. They are safe for concurrent use. Engines whose parents refer to one another's share
// them.
type Lineages struct {
	types map[resource.Type]struct{} // whose writes are remembered

	mu struct {
		sync.Mutex
		// young and old are the lineages of what was written, by versionHash. Once young has
		// maxTraced, it becomes old.
		young, old map[uint64]*Lineage
		// passes are the lineages of the passes under way that may have written, by a hash of
		// the parent's UID.
		passes map[uint64]*Lineage
	}
}

// NewLineages returns Lineages of writes of these types.
func NewLineages(of ...resource.Type) *Lineages {
	l := &Lineages{types: map[resource.Type]struct{}{}}
	for _, t := range of {
		l.types[t] = struct{}{}
	}
	l.mu.young, l.mu.passes = map[uint64]*Lineage{}, map[uint64]*Lineage{}
	return l
}

// Of says whether writes of a type are remembered. Those of nil Lineages aren't.
func (l *Lineages) Of(t resource.Type) bool {
	if l == nil {
		return false
	}
	_, ok := l.types[t]
	return ok
}

// Begin says that the pass over a parent may write from now on, and what that follows from.
// The caller must call End.
func (l *Lineages) Begin(parent types.UID, from *Lineage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.passes[uidHash(parent)] = from
}

// A Trace is an object that a pass has written, in the state that it has left: of a deleted
// object, an empty version.
type Trace struct {
	UID     types.UID
	Version string
}

// End says that the pass over a parent has ended, and what it has written. It does nothing
// if there was no Begin.
func (l *Lineages) End(parent types.UID, wrote []Trace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, ok := l.mu.passes[uidHash(parent)]
	if !ok {
		return
	}
	delete(l.mu.passes, uidHash(parent))
	for _, t := range wrote {
		l.mu.young[versionHash(t.UID, t.Version)] = from
	}
	if len(l.mu.young) >= maxTraced {
		l.mu.old, l.mu.young = l.mu.young, map[uint64]*Lineage{}
	}
}

// of returns what the write of an object followed from, by the versionHash of the object. It
// returns false if others have written it. What a pass under way may have written itself
// counts as its write: its answer may come later than the watch tells.
func (l *Lineages) of(written, owner uint64) (*Lineage, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from, ok := l.mu.young[written]; ok {
		return from, true
	}
	if from, ok := l.mu.old[written]; ok {
		return from, true
	}
	from, ok := l.mu.passes[owner]
	return from, ok
}

// uidHash is a hash of a UID, and the versionHash of a deleted object.
func uidHash(uid types.UID) uint64 { return versionHash(uid, "") }
