package plan

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// followUps is how many passes after a prompted one may still write what follows
// from the same prompt: what depends on a child of which only the API server
// knows the rest, and the status, which waits for the children.
const followUps = 2

// A Memory holds what is remembered of every parent. It is safe for concurrent
// use. What it returns of one parent belongs to the pass over that parent, of
// which there is never more than one at a time.
type Memory struct {
	mu struct {
		sync.Mutex
		parents map[types.UID]*ParentMemory
	}
}

// NewMemory returns a memory of nothing.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.parents = map[types.UID]*ParentMemory{}
	return m
}

// Of returns what is remembered of a parent.
func (m *Memory) Of(parent types.UID) *ParentMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.mu.parents[parent]
	if p == nil {
		p = &ParentMemory{}
		m.mu.parents[parent] = p
	}
	return p
}

// Forget drops what is remembered of a parent.
func (m *Memory) Forget(parent types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.parents, parent)
}

// Len returns of how many parents something is remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.parents)
}

// A ParentMemory is what is remembered of one parent from pass to pass. Only
// its methods, all of them in this file, change it. The zero value remembers
// nothing.
type ParentMemory struct {
	children childMemories
	status   statusMemory
	// statusDeferred: the last pass changed children and left the status to the
	// next one.
	statusDeferred bool
	// inputs are what the last pass left behind.
	inputs Inputs
	// parentDigest is of the labels and annotations (see digestOf) of the parent
	// at resourceVersion parentVersion.
	parentVersion string
	parentDigest  jsonvalue.Digest
	// followUps is how many more passes count as prompted by what an earlier
	// one found.
	followUps int
	// terminating are the namespaces in which the last pass could create nothing,
	// since they were being deleted.
	terminating []string
	// foretold is the digest of what was last logged that a dry run would do.
	foretold jsonvalue.Digest
	// lastError is the text of the last Event about a failure.
	lastError string
}

// A statusMemory is what the server made of a status.
type statusMemory struct{ desired, live jsonvalue.Digest }

// Inputs are what a handler's answer depends on: the parent and its children.
type Inputs struct {
	Uid        types.UID
	Generation int64
	Parent     jsonvalue.Digest // of labels and annotations
	Children   uint64           // of UIDs and resourceVersions
}

// remembered returns what is remembered of a desired child, whichever object it
// was then; nil if nothing is.
func (p *ParentMemory) remembered(d *Desired) *childMemory {
	if d.known != nil {
		return d.known
	}
	return p.children.of(d.ref)
}

// Child returns what is remembered of the object with this UID, nil if nothing
// is.
func (p *ParentMemory) Child(ref object.Ref, uid types.UID) *childMemory {
	if c := p.children.of(ref); c != nil && c.uid == uid {
		return c
	}
	return nil
}

// Accept remembers that live is what the server made of d, and that the two
// still differ in rest.
func (p *ParentMemory) Accept(d *Desired, live *resource.Resource, rest []merge.Difference) {
	c := accepting(d, live, rest)
	c.version = live.ResourceVersion()
	p.children.put(c)
}

// AcceptWritten is accept for a child that was written at a time.
func (p *ParentMemory) AcceptWritten(d *Desired, live *resource.Resource, rest []merge.Difference, at time.Time) {
	p.Accept(d, live, rest)
	p.children.of(d.ref).wrote = at.UnixNano()
}

// Refuse remembers that a write of d can't succeed before d or live changes.
// live is nil if there was no such child.
func (p *ParentMemory) Refuse(d *Desired, live *resource.Resource, err error) {
	c := p.children.of(d.ref)
	if c == nil {
		c = &childMemory{kind: d.kind, key: d.ref.Key}
		p.children.put(c)
	}
	c.sum, c.hash, c.version = d.sum, d.Hash, ""
	c.refusal = &refusal{err: err}
	if live != nil {
		c.uid, c.refusal.version = live.UID(), live.ResourceVersion()
	}
}

// Carry remembers that live was compared with d and found to satisfy it. What
// is known of normalized fields stays.
func (p *ParentMemory) Carry(d *Desired, live *resource.Resource) {
	c := p.Child(d.ref, live.UID())
	if c == nil {
		p.Accept(d, live, nil)
		return
	}
	c.sum, c.hash, c.version, c.refusal = d.sum, d.Hash, live.ResourceVersion(), nil
}

// KeepOnly drops what is remembered of children that are no longer desired.
func (p *ParentMemory) KeepOnly(desired []*Desired) { p.children.keepOnly(desired) }

// DigestOf returns a digest of what the handler's answer depends on of a parent
// besides its generation: its labels and annotations. Of a type without
// generations that is the whole parent.
func (p *ParentMemory) DigestOf(parent *resource.Resource) jsonvalue.Digest {
	if parent.ResourceVersion() != p.parentVersion {
		of := any([]any{parent.Labels(), parent.Annotations()})
		if parent.Generation() == 0 {
			of = parent.ResourceVersion()
		}
		p.parentVersion, p.parentDigest = strings.Clone(parent.ResourceVersion()), jsonvalue.Sum(of)
	}
	return p.parentDigest
}

// Leave remembers what a pass leaves behind for the next one to find.
func (p *ParentMemory) Leave(in Inputs) { p.inputs = in }

// Left says whether the last pass left exactly this behind: nobody else has
// changed the parent or a child since.
func (p *ParentMemory) Left(in Inputs) bool { return in == p.inputs }

// Prompted says whether somebody else has changed the parent or a child since
// the last pass, or did so up to followUps passes before. It is to be asked once
// a pass.
func (p *ParentMemory) Prompted(in Inputs) bool {
	if !p.Left(in) {
		p.followUps = followUps
		return true
	}
	p.followUps--
	return p.followUps >= 0
}

// DeferStatus says whether a pass leaves the status to the next one: if it may,
// but not twice in a row.
func (p *ParentMemory) DeferStatus(may bool) bool {
	p.statusDeferred = may && !p.statusDeferred
	return p.statusDeferred
}

// KnowsStatus says whether live is what the server made of a desired status.
func (p *ParentMemory) KnowsStatus(desired, live any) bool {
	return p.status == statusMemory{desired: jsonvalue.Sum(desired), live: jsonvalue.Sum(live)}
}

// AcceptStatus remembers that live is what the server made of a desired status.
func (p *ParentMemory) AcceptStatus(desired, live any) {
	p.status = statusMemory{desired: jsonvalue.Sum(desired), live: jsonvalue.Sum(live)}
}

// FoundTerminating remembers the namespaces in which nothing could be created.
func (p *ParentMemory) FoundTerminating(namespaces []string) { p.terminating = namespaces }

// NamespacesTerminating returns the namespaces in which the last pass could create
// nothing.
func (p *ParentMemory) NamespacesTerminating() []string { return p.terminating }

// AwaitsNamespace says whether one of them is another than the parent's own: it
// may be created anew while the parent exists.
func (p *ParentMemory) AwaitsNamespace(own string) bool {
	return slices.ContainsFunc(p.terminating, func(namespace string) bool { return namespace != own })
}

// Foretell says whether a dry run foresees anything else than was last logged,
// and remembers it.
func (p *ParentMemory) Foretell(changes jsonvalue.Digest) (news bool) {
	news = changes != p.foretold
	p.foretold = changes
	return news
}

// Failed says whether the text of a failure is another than that of the last
// one, and remembers it. The empty text is a success.
func (p *ParentMemory) Failed(text string) (news bool) {
	news = text != p.lastError
	p.lastError = text
	return news
}
