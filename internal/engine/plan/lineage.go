package plan

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

const (
	// maxRounds is how often a pass over a parent may follow from others over the same parent
	// before that counts as a circle. Parents may take some steps in turn until they agree.
	maxRounds = 10
	// maxAncestors bounds how many parents a Lineage names.
	maxAncestors = 64
	// maxChain is how many passes may follow from one another before they count as a circle,
	// whether the Lineage has room to say so or not.
	maxChain = 1000
	// maxTraced is how many writes Lineages remember at least.
	maxTraced = 16 << 10
	// maxSkipped bounds how many writes of an object are looked at that a pass wasn't shown.
	maxSkipped = 32
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
	parent uint64 // the uidHash
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

// circles says whether a pass over a parent that follows from l is in a circle.
func (l *Lineage) circles(parent uint64) bool {
	return l != nil && (l.times(parent) > maxRounds || l.length > maxChain)
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
	out.ancestors[at].times = min(out.ancestors[at].times, maxChain) + 1
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

// passes returns how many passes followed from one another.
func (l *Lineage) passes() int {
	if l == nil {
		return 0
	}
	return l.length
}

// before says whether a pass over a parent is less of a circle by l than by other.
func (l *Lineage) before(other *Lineage, parent uint64) bool {
	return cmp.Or(cmp.Compare(l.times(parent), other.times(parent)), cmp.Compare(l.passes(), other.passes())) < 0
}

// A causes is what the changes follow from that a pass over one parent has found, if passes
// made them all. Of several, the one counts that names this parent least: what somebody else
// has set off excuses what has changed besides.
type causes struct {
	parent uint64 // the uidHash
	some   bool   // there is a change
	others bool   // there is one that no pass has made
	from   *Lineage
}

// note adds a change that a pass has made, and that follows from a lineage.
func (c *causes) note(from *Lineage) {
	if !c.some || from.before(c.from, c.parent) {
		c.from = from
	}
	c.some = true
}

// Lineages remember the newest writes of operators, and what each of them followed from. So
// an operator can tell what passes have changed of a related object, of a child or of the
// parent from what others have. They are safe for concurrent use. All operators of a process
// share them, whose parents may refer to each other's, or be each other's children.
type Lineages struct {
	kinds  map[schema.GroupKind]struct{} // whose writes are remembered
	labels []string                      // in which operators name the parents of their children

	mu struct {
		sync.Mutex
		// young and old are the writes, by the versionHash of what was written. Once young has
		// maxTraced, it becomes old.
		young, old map[uint64]write
		// passes are those under way that may have written, by the uidHash of the parent.
		passes map[uint64][]*Writing
	}
}

// A write is one of an object, or its delete.
type write struct {
	from   *Lineage
	before uint64 // the versionHash of what was there before
}

// NewLineages returns Lineages of writes of these types, in any version, by operators with
// these tracking labels.
func NewLineages(of []resource.Type, labels []string) *Lineages {
	l := &Lineages{kinds: map[schema.GroupKind]struct{}{}, labels: labels}
	for _, t := range of {
		l.kinds[t.GroupVersionKind().GroupKind()] = struct{}{}
	}
	l.mu.young, l.mu.passes = map[uint64]write{}, map[uint64][]*Writing{}
	return l
}

// Of says whether writes of a type are remembered.
func (l *Lineages) Of(t resource.Type) bool {
	_, ok := l.kinds[t.GroupVersionKind().GroupKind()]
	return ok
}

// A Writing is a pass that may write from now on.
type Writing struct {
	of   *Lineages
	from *Lineage
}

// Begin says that the pass over a parent may write from now on, and what that follows from.
// The caller must call End.
func (l *Lineages) Begin(parent types.UID, from *Lineage) *Writing {
	w := &Writing{of: l, from: from}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.passes[uidHash(parent)] = append(l.mu.passes[uidHash(parent)], w)
	return w
}

// A Trace is an object that a pass has written.
type Trace struct {
	UID    types.UID
	Before string // the version that was there before, "" if none was
	After  string // the version that the pass has left; "" if it is gone for those who look for it
}

// End says that the pass over a parent has ended, and what it has written.
func (w *Writing) End(parent types.UID, wrote []Trace) {
	l := w.of
	l.mu.Lock()
	defer l.mu.Unlock()
	passes := slices.DeleteFunc(l.mu.passes[uidHash(parent)], func(each *Writing) bool { return each == w })
	if l.mu.passes[uidHash(parent)] = passes; len(passes) == 0 {
		delete(l.mu.passes, uidHash(parent))
	}
	for _, t := range wrote {
		l.mu.young[versionHash(t.UID, t.After)] = write{w.from, versionHash(t.UID, t.Before)}
	}
	if len(l.mu.young) >= maxTraced {
		l.mu.old, l.mu.young = l.mu.young, map[uint64]write{}
	}
}

// since notes which pass has written an object s that was in the version seen, 0: it wasn't
// seen before. What a pass under way may have written counts as its write: the answer to it
// may come later than the watch tells. Of several writes since the version seen, the one
// counts that names the parent of c least.
func (l *Lineages) since(c *causes, s sighting, seen uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, known := l.writeLocked(s.version)
	if !known {
		for _, parent := range s.parents {
			for _, under := range l.mu.passes[parent] {
				c.note(under.from)
				known = true
			}
		}
		c.others = c.others || !known
		return
	}
	c.note(w.from)
	for range maxSkipped {
		if seen == 0 || w.before == seen {
			return
		}
		if w, known = l.writeLocked(w.before); !known {
			return
		}
		c.note(w.from)
	}
}

func (l *Lineages) writeLocked(of uint64) (write, bool) {
	if w, ok := l.mu.young[of]; ok {
		return w, true
	}
	w, ok := l.mu.old[of]
	return w, ok
}

// sightingOf returns an object as it is, with the parents whose passes may write it: the
// object itself, and the one whose child it is.
func (l *Lineages) sightingOf(res *resource.Resource) sighting {
	s := sighting{uid: uidHash(res.UID()), version: versionHash(res.UID(), res.ResourceVersion())}
	s.parents[0] = s.uid
	for _, label := range l.labels {
		if parent, ok := res.Label(label); ok {
			s.parents[1] = uidHash(types.UID(parent))
		}
	}
	return s
}

// A sighting is an object as a pass was shown it.
type sighting struct {
	uid, version uint64    // uidHash and versionHash
	parents      [2]uint64 // the uidHashes of those whose passes may write it
}

// uidHash is a hash of a UID, and the versionHash of an object that is gone.
func uidHash(uid types.UID) uint64 { return versionHash(uid, "") }
