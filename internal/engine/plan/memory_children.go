package plan

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// fewChildren is up to how many children are searched one by one. More of them
	// have an index.
	fewChildren = 16
)

// A childMemory is what is remembered of one child. The methods of ParentMemory
// alone change it. A nil *childMemory remembers nothing.
type childMemory struct {
	kind *catalog.Kind
	key  types.NamespacedName
	uid  types.UID
	// sum and hash are those of the Desired that was accepted last.
	sum, hash jsonvalue.Digest
	// version is the resourceVersion at which the child was found to satisfy the
	// desired state. While neither changes, there is nothing to compare.
	version string
	// kept are the differences that the last accepted response still had.
	kept *keptDifferences
}

// accepting returns the memory of a child that the API server accepts: when it is
// sent d, it makes an object of d that differs from d in rest. Of live only the
// UID is remembered, since live may be another state of the child.
func accepting(d *Desired, live *resource.Resource, rest []merge.Difference) *childMemory {
	return &childMemory{kind: d.kind, key: d.ref.Key, uid: live.UID(), sum: d.sum, hash: d.hash, kept: newKept(rest)}
}

// unlearn drops what was learned of how the API server treats the child. The child
// has to be compared again, as if nothing were remembered of it. The digests go too,
// since they depend on the schema.
func (c *childMemory) unlearn() {
	c.sum, c.hash = jsonvalue.Digest{}, jsonvalue.Digest{}
	c.uid, c.version, c.kept = "", "", nil
}

// ref returns the reference to the child.
func (c *childMemory) ref() object.Ref { return object.Ref{Type: c.kind.Type, Key: c.key} }

// of returns c if live is the very object that is remembered, by its UID. Else it
// returns nil.
func (c *childMemory) of(live *resource.Resource) *childMemory {
	if c == nil || live == nil || c.uid != live.UID() {
		return nil
	}
	return c
}

// settled reports whether live is known to satisfy d, without a comparison. A desired state that is spelled otherwise is compared:
// where it gives a field the zero value now, the live one counts.
func (c *childMemory) settled(d *Desired, live *resource.Resource) bool {
	return c != nil && c.version == live.ResourceVersion() && c.sum == d.sum && c.hash == d.hash
}

// desires reports whether a difference with the same desired value was kept when the child was accepted.
func (c *childMemory) desires(d merge.Difference) bool { return c != nil && c.kept.desires(d) }

// split splits the differences of a live child into those that are only what the
// API server made of the desired values when it accepted them, and the others.
func (c *childMemory) split(diffs []merge.Difference) (explained, others []merge.Difference) {
	if c == nil {
		return nil, diffs
	}
	return c.kept.split(diffs)
}

// A childMemories is what is remembered of the children of one parent. The zero
// value is empty.
type childMemories struct {
	// list is in the order in which the handler last returned the children.
	list []*childMemory
	// index has the positions in list; nil: there are no more than fewChildren.
	index map[object.Ref]int
}

// of returns what is remembered of a child, nil if nothing is.
func (m *childMemories) of(ref object.Ref) *childMemory {
	if i := m.at(ref); i >= 0 {
		return m.list[i]
	}
	return nil
}

// at returns the position of a child in the list, -1 if the child isn't there.
func (m *childMemories) at(ref object.Ref) int {
	if m.index != nil {
		if i, ok := m.index[ref]; ok {
			return i
		}
		return -1
	}
	for i, c := range m.list {
		if c.ref() == ref {
			return i
		}
	}
	return -1
}

// put adds or replaces what is remembered of a child.
func (m *childMemories) put(c *childMemory) {
	if i := m.at(c.ref()); i >= 0 {
		m.list[i] = c
		return
	}
	m.list = append(m.list, c)
	if m.index != nil {
		m.index[c.ref()] = len(m.list) - 1
	} else {
		m.reindex()
	}
}

// reindex makes the index anew.
func (m *childMemories) reindex() {
	m.index = nil
	if len(m.list) <= fewChildren {
		return
	}
	m.index = make(map[object.Ref]int, len(m.list))
	for i, c := range m.list {
		m.index[c.ref()] = i
	}
}

// returned returns the child that has this sum, nil if it isn't found. It searches
// the list near position i, at which the child was in the last response if
// nothing has changed since.
func (m *childMemories) returned(i int, sum jsonvalue.Digest) *childMemory {
	for _, c := range m.list[max(0, min(i-fewChildren, len(m.list))):min(i+fewChildren, len(m.list))] {
		if c.sum == sum {
			return c
		}
	}
	return nil
}

// keepOnly drops all children that aren't among desired, and brings the others
// into the order of desired.
func (m *childMemories) keepOnly(desired []*Desired) {
	if m.inOrder(desired) {
		return
	}
	list := make([]*childMemory, 0, len(m.list))
	for _, d := range desired {
		if c := m.of(d.ref); c != nil {
			list = append(list, c)
		}
	}
	m.list = list
	m.reindex()
}

// inOrder says whether the list has exactly the desired children, in their order.
// An empty list needs no order.
func (m *childMemories) inOrder(desired []*Desired) bool {
	if len(m.list) != len(desired) {
		return len(m.list) == 0
	}
	for i, c := range m.list {
		if c.ref() != desired[i].ref {
			return false
		}
	}
	return true
}
