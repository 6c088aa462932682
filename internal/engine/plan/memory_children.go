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
	// fewChildren is up to how many children are looked through one by one.
	fewChildren = 16
	// maxExceptions bounds how many fields of one child are remembered as
	// normalized. A child with more of them is compared by a dry run again.
	maxExceptions = 500
)

// A childMemory is what is remembered of one child. A nil *childMemory
// remembers nothing.
type childMemory struct {
	kind *catalog.Kind
	key  types.NamespacedName
	uid  types.UID
	// sum is of what the handler returned, and hash of what that means.
	sum, hash jsonvalue.Digest
	// version is the child's resourceVersion at which it was found to satisfy
	// the desired state. While neither changes there is nothing to compare.
	version string
	// wrote is when it was last written, in ns since 1970.
	wrote int64
	// exceptions are the fields of which the API server made something else when
	// it accepted them, by path.
	exceptions map[string]exception
	refusal    *refusal // nil: it wasn't refused
}

// An exception is a field of which the server, told desired, made live.
type exception struct{ desired, live jsonvalue.Digest }

// A refusal is the answer to a write that can't succeed before the desired or
// the live state changes.
type refusal struct {
	err     error
	version string // the child's resourceVersion then; empty: there was no child
}

// accepting returns the memory of a child of which the server, told d, makes an
// object that differs from d in rest. Whether live is that object isn't said.
func accepting(d *Desired, live *resource.Resource, rest []merge.Difference) *childMemory {
	c := &childMemory{kind: d.kind, key: d.ref.Key, uid: live.UID(), sum: d.sum, hash: d.Hash}
	if len(rest) > 0 && len(rest) <= maxExceptions {
		c.exceptions = make(map[string]exception, len(rest))
		for _, diff := range rest {
			c.exceptions[diff.Path] = exceptionOf(diff)
		}
	}
	return c
}

func exceptionOf(d merge.Difference) exception {
	return exception{desired: jsonvalue.Sum(d.Desired), live: jsonvalue.Sum(d.Live)}
}

func (c *childMemory) ref() object.Ref { return object.Ref{Type: c.kind.Type, Key: c.key} }

// of returns c if it is the memory of this very object, else nil.
func (c *childMemory) of(live *resource.Resource) *childMemory {
	if c == nil || live == nil || c.uid != live.UID() {
		return nil
	}
	return c
}

// settled says, without comparing, whether live still satisfies d.
func (c *childMemory) settled(d *Desired, live *resource.Resource) bool {
	return c != nil && c.version == live.ResourceVersion() && (c.sum == d.sum || c.hash == d.Hash)
}

// explains says whether a difference is only what the server made of the
// desired value when it accepted it.
func (c *childMemory) explains(d merge.Difference) bool {
	if c == nil || d.Removed {
		return false
	}
	e, ok := c.exceptions[d.Path]
	return ok && e == exceptionOf(d)
}

// refuses returns the error of the last write, if another one would end in the
// same; else nil.
func (c *childMemory) refuses(d *Desired, live *resource.Resource) error {
	if c == nil || c.refusal == nil || c.hash != d.Hash {
		return nil
	}
	if live == nil && c.refusal.version == "" || live != nil && c.refusal.version == live.ResourceVersion() {
		return c.refusal.err
	}
	return nil
}

// LastWrite returns the resourceVersion at which the child was found to satisfy
// its desired state, and when it was last written, in ns since 1970.
func (c *childMemory) LastWrite() (version string, wrote int64) {
	if c == nil {
		return "", 0
	}
	return c.version, c.wrote
}

// childMemories are what is remembered of a parent's children. The zero value
// is empty.
type childMemories struct {
	// list is in the order in which the handler returned them last.
	list []*childMemory
	// index says where they are in list if there are many; else it is nil.
	index map[object.Ref]int
}

// of returns what is remembered of a child, nil if nothing is.
func (m *childMemories) of(ref object.Ref) *childMemory {
	if i := m.at(ref); i >= 0 {
		return m.list[i]
	}
	return nil
}

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

// returned finds the child for which the handler returned what has this sum,
// nil if there is none near position i of the list, where it was the last time
// if nothing has changed.
func (m *childMemories) returned(i int, sum jsonvalue.Digest) *childMemory {
	for _, c := range m.list[max(0, min(i-fewChildren, len(m.list))):min(i+fewChildren, len(m.list))] {
		if c.sum == sum {
			return c
		}
	}
	return nil
}

// keepOnly drops what is remembered of children that are no longer desired.
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
