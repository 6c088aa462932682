package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// maxExceptions bounds how many fields of one child are remembered as
// normalized; a child with more is compared through a dry run again.
const maxExceptions = 500

// A memory holds what the API server has accepted, by parent. What is said
// of one parent belongs to the pass over that parent, of which there is never
// more than one; the map itself is safe for concurrent use.
type memory struct {
	mu struct {
		sync.Mutex
		parents map[types.UID]*parentMemory
	}
}

// A parentMemory is what is remembered of one parent.
type parentMemory struct {
	children childMemories
	status   statusMemory

	// statusDeferred: the last pass changed children and left the status to
	// the next.
	statusDeferred bool
	// inputs is what the last pass left behind: if the next one finds the
	// same, nobody else has changed anything in between.
	inputs inputs
	// parentSeen is the resourceVersion of the parent that parentInputs is of.
	parentSeen   string
	parentInputs digest
	// followUps is how many passes more count as prompted by what was found
	// then.
	followUps int
	// terminating are the namespaces in which the last pass could create
	// nothing for that reason.
	terminating []string
	// told is a sum of what was last logged that a dry run would do.
	told digest
	// lastError is what the last Event about a failure said.
	lastError string
}

// A childMemory is what is remembered of one child.
type childMemory struct {
	kind *kind
	key  types.NamespacedName
	uid  types.UID
	// sum is of what the handler returned, hash of what it meant.
	sum, hash digest
	// version is the child's resourceVersion at which it was found to satisfy
	// that. While neither has changed there is nothing to compare.
	version string
	// wrote is when it was last written, in ns since 1970.
	wrote int64
	// exceptions are the fields that the API server has accepted and made
	// something else of, by path.
	exceptions map[string]exception
	refusal    *refusal // nil: it wasn't refused
}

// A refusal is the answer to a write that can't succeed before the desired or
// the live state changes.
type refusal struct {
	err     error
	version string // the child's resourceVersion then; empty: there was none
}

// A digest is enough of a SHA-256 sum to tell values apart.
type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

func (c *childMemory) ref() objectRef { return objectRef{c.kind.Type, c.key} }

// An exception is a field for which the server, told desired, made live of it.
type exception struct{ desired, live digest }

// A statusMemory is what the server made of a status.
type statusMemory struct{ desired, live digest }

// inputs are what a handler's answer depends on.
type inputs struct {
	uid        types.UID
	generation int64
	parent     digest // labels and annotations
	children   uint64 // UIDs and resourceVersions
}

func newMemory() *memory {
	m := &memory{}
	m.mu.parents = map[types.UID]*parentMemory{}
	return m
}

// of returns what is remembered of a parent, to be used by its pass alone.
func (m *memory) of(parent types.UID) *parentMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.mu.parents[parent]
	if p == nil {
		p = &parentMemory{}
		m.mu.parents[parent] = p
	}
	return p
}

func (m *memory) forget(parent types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.parents, parent)
}

// accepted remembers that live is what the server made of d, with the fields
// in which the two still differ.
func (p *parentMemory) accepted(d *desiredChild, live *resource.Resource, rest []difference) {
	c := &childMemory{kind: d.kind, key: d.ref.Key, uid: live.UID(), sum: d.sum, hash: d.hash, version: live.ResourceVersion()}
	if len(rest) > 0 && len(rest) <= maxExceptions {
		c.exceptions = make(map[string]exception, len(rest))
		for _, diff := range rest {
			c.exceptions[diff.Path] = exceptionOf(diff)
		}
	}
	p.children.put(c)
}

// refuse remembers that a write of d can't succeed as things are.
func (p *parentMemory) refuse(d *desiredChild, live *resource.Resource, err error) {
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

// carry remembers that live was compared and found to satisfy d; what is known
// of normalized fields stays.
func (p *parentMemory) carry(d *desiredChild, live *resource.Resource) {
	c := p.child(d.ref, live.UID())
	if c == nil {
		p.accepted(d, live, nil)
		return
	}
	c.sum, c.hash, c.version, c.refusal = d.sum, d.hash, live.ResourceVersion(), nil
}

// of the child with this UID, nil if nothing is known of it.
func (p *parentMemory) child(ref objectRef, uid types.UID) *childMemory {
	if c := p.children.of(ref); c != nil && c.uid == uid {
		return c
	}
	return nil
}

// settled says, without comparing, that live still satisfies d.
func (c *childMemory) settled(d *desiredChild, live *resource.Resource) bool {
	return c != nil && c.version == live.ResourceVersion() && (c.sum == d.sum || c.hash == d.hash)
}

// explains says that a difference is only what the server made of the desired
// value when it accepted it.
func (c *childMemory) explains(d difference) bool {
	if c == nil || d.Removed {
		return false
	}
	e, ok := c.exceptions[d.Path]
	return ok && e == exceptionOf(d)
}

// parentSum sums up what of a parent, besides its generation, the handler's
// answer depends on: labels and annotations, or everything of a type without
// generations.
func (p *parentMemory) parentSum(parent *resource.Resource) digest {
	if parent.ResourceVersion() != p.parentSeen {
		of := any([]any{parent.Labels(), parent.Annotations()})
		if parent.Generation() == 0 {
			of = parent.ResourceVersion()
		}
		p.parentSeen, p.parentInputs = strings.Clone(parent.ResourceVersion()), jsonSum(of)
	}
	return p.parentInputs
}

// remembered returns what is known of a desired child, whichever instance it
// was; nil if nothing is.
func (p *parentMemory) remembered(d *desiredChild) *childMemory {
	if d.known != nil {
		return d.known
	}
	return p.children.of(d.ref)
}

// of returns c if it is of this instance, else nil.
func (c *childMemory) of(live *resource.Resource) *childMemory {
	if c == nil || live == nil || c.uid != live.UID() {
		return nil
	}
	return c
}

// refuses returns the error of the last try, if another would be the same.
func (c *childMemory) refuses(d *desiredChild, live *resource.Resource) error {
	if c == nil || c.refusal == nil || c.hash != d.hash {
		return nil
	}
	if live == nil && c.refusal.version == "" || live != nil && c.refusal.version == live.ResourceVersion() {
		return c.refusal.err
	}
	return nil
}

func exceptionOf(d difference) exception {
	return exception{desired: jsonSum(d.Desired), live: jsonSum(d.Live)}
}

// sumSize is room for most of what is summed.
const sumSize = 512

// jsonSum returns the sum of a value that came from JSON.
func jsonSum(v any) digest {
	raw, err := jsonvalue.Append(make([]byte, 0, sumSize), v)
	if err != nil {
		raw = []byte(err.Error()) // can't be: JSON has no such value
	}
	sum := sha256.Sum256(raw)
	return digest(sum[:])
}
