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

// followUps is how many passes after a prompted one count as prompted too. They
// write what still follows from the same prompt: children that depend on what the
// API server made of another child, and the status, which waits for the children.
const followUps = 2

// A Memory holds the ParentMemory of every parent. Memory itself is safe for
// concurrent use. A ParentMemory that it returns is not: it belongs to the pass
// over that parent, of which there is never more than one at a time.
type Memory struct {
	mu struct {
		sync.Mutex
		parents map[types.UID]*ParentMemory
	}
}

// NewMemory returns a Memory that remembers no parent.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.parents = map[types.UID]*ParentMemory{}
	return m
}

// Of returns what is remembered of the parent with this UID. It is never nil, and
// the same until Forget.
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

// Forget drops what is remembered of the parent with this UID.
func (m *Memory) Forget(parent types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.parents, parent)
}

// Len returns the number of parents that are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.parents)
}

// A ParentMemory is what is remembered of one parent from pass to pass. Only its
// methods change it, and all of those are in this file. It isn't safe for
// concurrent use. The zero value remembers nothing.
type ParentMemory struct {
	children childMemories
	status   statusMemory
	// statusDeferred: the last pass changed children, and left the status to the
	// next pass.
	statusDeferred bool
	// inputs are those that the last pass left behind.
	inputs Inputs
	// parentDigest is the digest (see DigestOf) of the parent at resourceVersion
	// parentVersion.
	parentVersion string
	parentDigest  jsonvalue.Digest
	// followUps is how many more passes count as prompted: see the constant. Below
	// zero, none does.
	followUps int
	// terminating are the namespaces in which the last pass could create nothing,
	// since they were being deleted.
	terminating []string
	// foretold is the digest of the changes that a dry run last foresaw and logged.
	foretold jsonvalue.Digest
	// lastError is the text of the last failure; empty: the last pass succeeded.
	lastError string
}

// A statusMemory is a desired status, and the live one that the API server made
// of it.
type statusMemory struct{ desired, live jsonvalue.Digest }

// Inputs are what a handler's answer depends on: the parent and its children.
// Two Inputs are equal (==) if nothing has changed between them.
type Inputs struct {
	UID        types.UID        // of the parent
	Generation int64            // of the parent
	Parent     jsonvalue.Digest // of the parent's labels and annotations: see DigestOf
	Children   uint64           // of the UIDs and resourceVersions of the children
}

// remembered returns what is remembered of a desired child, nil if nothing is. The
// object remembered may be another one of the same name: see childMemory.of.
func (p *ParentMemory) remembered(d *Desired) *childMemory {
	if d.known != nil {
		return d.known
	}
	return p.children.of(d.ref)
}

// child returns what is remembered of the object with this UID, nil if nothing
// is.
func (p *ParentMemory) child(ref object.Ref, uid types.UID) *childMemory {
	if c := p.children.of(ref); c != nil && c.uid == uid {
		return c
	}
	return nil
}

// LastWrite returns the resourceVersion at which the child with this UID was found
// to satisfy its desired state, and when the child was last written, in
// nanoseconds since 1970. The version is empty and the time zero if that isn't
// remembered.
func (p *ParentMemory) LastWrite(ref object.Ref, uid types.UID) (version string, wrote int64) {
	c := p.child(ref, uid)
	if c == nil {
		return "", 0
	}
	return c.version, c.wrote
}

// Accept remembers that live is what the API server made of d, and that the two
// still differ in rest.
func (p *ParentMemory) Accept(d *Desired, live *resource.Resource, rest []merge.Difference) {
	c := accepting(d, live, rest)
	c.version = live.ResourceVersion()
	p.children.put(c)
}

// AcceptWritten is Accept for a child that was written at the time at.
func (p *ParentMemory) AcceptWritten(d *Desired, live *resource.Resource, rest []merge.Difference, at time.Time) {
	p.Accept(d, live, rest)
	p.children.of(d.ref).wrote = at.UnixNano()
}

// Refuse remembers that a write of d was refused with err, and can't succeed before
// d or live changes. live is nil if the child didn't exist.
func (p *ParentMemory) Refuse(d *Desired, live *resource.Resource, err error) {
	c := p.children.of(d.ref)
	if c == nil {
		c = &childMemory{kind: d.kind, key: d.ref.Key}
		p.children.put(c)
	}
	c.sum, c.hash, c.version = d.sum, d.hash, ""
	c.refusal = &refusal{err: err}
	if live != nil {
		c.uid, c.refusal.version = live.UID(), live.ResourceVersion()
	}
}

// Carry remembers that live was compared with d, and satisfies d. What is known of
// fields that the API server normalizes stays.
func (p *ParentMemory) Carry(d *Desired, live *resource.Resource) {
	c := p.child(d.ref, live.UID())
	if c == nil {
		p.Accept(d, live, nil)
		return
	}
	c.sum, c.hash, c.version, c.refusal = d.sum, d.hash, live.ResourceVersion(), nil
}

// KeepOnly drops what is remembered of all children that aren't among desired, and
// takes over the order of desired.
func (p *ParentMemory) KeepOnly(desired []*Desired) { p.children.keepOnly(desired) }

// DigestOf returns a digest of a parent, for Inputs. It is of the labels and
// annotations, changes of which the generation doesn't count. For a type without
// generations it is of the resourceVersion. The last digest is remembered.
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

// Leave remembers the inputs that a pass leaves behind for the next pass to find.
func (p *ParentMemory) Leave(in Inputs) { p.inputs = in }

// Left says whether in is exactly what the last pass left behind. Then nobody else
// has changed the parent or a child since.
func (p *ParentMemory) Left(in Inputs) bool { return in == p.inputs }

// Prompted says whether somebody else has changed the parent or a child since the
// last pass, or did so at most followUps passes before. It counts the passes, so
// it must be called once a pass.
func (p *ParentMemory) Prompted(in Inputs) bool {
	if !p.Left(in) {
		p.followUps = followUps
		return true
	}
	p.followUps--
	return p.followUps >= 0
}

// DeferStatus says whether a pass leaves the status to the next pass. It does if
// it may, but not twice in a row. DeferStatus remembers the answer.
func (p *ParentMemory) DeferStatus(may bool) bool {
	p.statusDeferred = may && !p.statusDeferred
	return p.statusDeferred
}

// KnowsStatus says whether live is what the API server made of this desired status
// when it was last accepted.
func (p *ParentMemory) KnowsStatus(desired, live any) bool {
	return p.status == statusMemory{desired: jsonvalue.Sum(desired), live: jsonvalue.Sum(live)}
}

// AcceptStatus remembers that live is what the API server made of a desired status.
func (p *ParentMemory) AcceptStatus(desired, live any) {
	p.status = statusMemory{desired: jsonvalue.Sum(desired), live: jsonvalue.Sum(live)}
}

// FoundTerminating remembers the namespaces in which a pass could create nothing.
// It keeps the slice.
func (p *ParentMemory) FoundTerminating(namespaces []string) { p.terminating = namespaces }

// NamespacesTerminating returns the namespaces in which the last pass could create
// nothing. The slice is read only.
func (p *ParentMemory) NamespacesTerminating() []string { return p.terminating }

// AwaitsNamespace says whether one of NamespacesTerminating is another than own,
// the parent's namespace. Such a namespace may be created anew while the parent
// exists.
func (p *ParentMemory) AwaitsNamespace(own string) bool {
	return slices.ContainsFunc(p.terminating, func(namespace string) bool { return namespace != own })
}

// Foretell says whether a dry run foresees other changes than those last logged,
// and remembers the changes, by their digest.
func (p *ParentMemory) Foretell(changes jsonvalue.Digest) (news bool) {
	news = changes != p.foretold
	p.foretold = changes
	return news
}

// Failed says whether the text of a failure differs from that of the last pass, and
// remembers the text. The empty text stands for a success.
func (p *ParentMemory) Failed(text string) (news bool) {
	news = text != p.lastError
	p.lastError = text
	return news
}
