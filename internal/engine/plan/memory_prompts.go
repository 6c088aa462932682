package plan

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// followUps is how many passes after a prompted one count as prompted too. They
	// write what still follows from the same prompt: children that depend on what
	// the API server made of another child, and the status, which waits for the
	// children.
	followUps = 2
	// answerInterval is how soon after a write a change of the child counts as the
	// child's answer to that write.
	answerInterval = time.Second
	// maxRetries is how many passes that only repeat a failed one have its prompt. It bounds what
	// a handler that returns something new each time can do while something else fails.
	maxRetries = 8
	// tickLength is the length of a tick.
	tickLength = 10 * time.Millisecond
)

// A tick is a moment as the number of tickLengths since 1970, modulo 2^32, which is
// 16 months. It takes less memory than a time. The zero tick stands for never.
type tick uint32

func tickOf(at time.Time) tick { return max(1, tick(at.UnixMilli()/tickLength.Milliseconds())) }

// age returns how long before now a tick was.
func (t tick) age(now time.Time) time.Duration {
	return time.Duration(tickOf(now)-t) * tickLength
}

// A Prompt is what has set off a pass.
type Prompt int

// The prompts.
const (
	// ByOthers: somebody else has changed the parent or a child, or the handler has
	// asked for the pass. The passes that follow at once have the same prompt, two
	// at most.
	ByOthers Prompt = iota
	// ByAnswer: nothing has changed but children that answered to the operator's
	// own writes, and those writes were prompted by answers in turn, more than
	// twice. An answer is the status that a controller gives to every new spec, or
	// the end of a child that the operator has deleted.
	ByAnswer
	// ByCircle: nothing has changed but what passes of this process have written, which
	// followed from this parent's own passes again and again. See Lineage.
	ByCircle
	// ByOwnWrites: nothing has changed but by the operator's own writes.
	ByOwnWrites
)

// Inputs are what a handler's answer depends on: the parent, its children, and what it
// refers to.
// Two Inputs are equal (==) if nothing has changed between them.
type Inputs struct {
	UID        types.UID        // of the parent
	Generation int64            // of the parent
	Parent     jsonvalue.Digest // of the parent's labels and annotations: see digestOf
	Children   uint64           // of the UIDs and resourceVersions of the children
	Related    uint64           // of those of the related objects
}

// WithRelated returns the inputs with another related object. The order is of no account.
func (in Inputs) WithRelated(res *resource.Resource) Inputs {
	in.Related += versionHash(res.UID(), res.ResourceVersion())
	return in
}

// With returns the inputs with another child. The order of children is of no
// account.
func (in Inputs) With(child *resource.Resource) Inputs {
	in.Children += versionHash(child.UID(), child.ResourceVersion())
	return in
}

// Without is the reverse of With.
func (in Inputs) Without(child *resource.Resource) Inputs {
	in.Children -= versionHash(child.UID(), child.ResourceVersion())
	return in
}

// at returns the inputs with a child in another version than live.
func (in Inputs) at(live *resource.Resource, version string) Inputs {
	in.Children += versionHash(live.UID(), version)
	return in.Without(live)
}

// versionHash is a hash of one state of an object: FNV-1a, whose bits are then mixed
// as MurmurHash3 does. Unmixed, the hashes of two versions that differ in their last
// digit differ by little more than the digits do, and the changes of two children
// may cancel each other in a sum. It allocates nothing, as hash/fnv would.
func versionHash(uid types.UID, version string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	const mix1, mix2 = 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53
	hash := uint64(offset)
	for _, text := range [...]string{string(uid), version} {
		for i := range len(text) {
			hash = (hash ^ uint64(text[i])) * prime
		}
	}
	hash = (hash ^ hash>>33) * mix1
	hash = (hash ^ hash>>33) * mix2
	return hash ^ hash>>33
}

// InputsOf returns the inputs of a handler that is shown a parent with these
// children.
func (p *ParentMemory) InputsOf(parent *resource.Resource, children []*resource.Resource) Inputs {
	in := Inputs{UID: parent.UID(), Generation: parent.Generation(), Parent: p.digestOf(parent)}
	for _, child := range children {
		in = in.With(child)
	}
	return in
}

// digestOf returns a digest of a parent, for Inputs. It is of the labels and
// annotations, changes of which the generation doesn't count. For a type without
// generations it is of the resourceVersion. The last digest is remembered.
func (p *ParentMemory) digestOf(parent *resource.Resource) jsonvalue.Digest {
	if parent.ResourceVersion() != p.parentVersion {
		of := any([]any{parent.Labels(), parent.Annotations()})
		if parent.Generation() == 0 {
			of = parent.ResourceVersion()
		}
		p.parentVersion, p.parentDigest = strings.Clone(parent.ResourceVersion()), jsonvalue.Sum(of)
	}
	return p.parentDigest
}

// Edited says whether somebody has edited the parent since the inputs that the last
// pass left behind.
func (p *ParentMemory) Edited(parent *resource.Resource) bool {
	return parent.Generation() != p.inputs.Generation || p.digestOf(parent) != p.inputs.Parent
}

// Leave remembers the inputs that a pass leaves behind for the next pass to find:
// what the handler was shown, with the pass's own writes.
func (p *ParentMemory) Leave(in Inputs) { p.inputs = in }

// Left says whether in is exactly what the last pass left behind. Then nobody else
// has changed the parent or a child since.
func (p *ParentMemory) Left(in Inputs) bool { return in == p.inputs }

// PassFailed remembers whether the last pass failed. If it did, the next one does no more than repeat
// it, unless it finds other inputs.
func (p *ParentMemory) PassFailed(failed bool) { p.failed = failed }

// Resync remembers that the handler wants its next call after a delay from now;
// zero: it doesn't say.
func (p *ParentMemory) Resync(now time.Time, after time.Duration) {
	p.resyncAt = 0
	if after > 0 {
		p.resyncAt = now.Add(after).UnixNano()
	}
}

// Prompted says what has set off a pass at the time now that finds the inputs in,
// with these children. looping says that the parent is in a conflict loop: its
// passes are delayed then, and so are the answers to its writes. Prompted counts
// the passes, so it must be called once a pass.
func (p *ParentMemory) Prompted(now time.Time, in Inputs, children []*resource.Resource, looping bool) Prompt {
	p.prompt = p.prompted(now, in, children, looping)
	return p.prompt
}

func (p *ParentMemory) prompted(now time.Time, in Inputs, children []*resource.Resource, looping bool) Prompt {
	asked := p.resyncAt > 0 && now.UnixNano() >= p.resyncAt
	if p.Left(in) && !asked {
		if p.failed && p.followUps >= 0 && p.retries < maxRetries {
			p.retries++
			return p.prompt
		}
		if p.followUps >= 0 {
			p.followUps--
		}
		if p.followUps >= 0 {
			return ByOthers
		}
		return ByOwnWrites
	}
	p.followUps, p.retries = followUps, 0
	first := p.inputs.UID == ""
	in, from, traced := p.follow(in, children)
	depth, answer := p.answers(now, in, children, traced, looping)
	switch {
	case p.related == nil:
	case first:
		p.related.lineage = p.related.begun()
	case !answer:
		p.related.lineage = nil
	case from.some:
		p.related.lineage = from.from
	}
	if first || asked || !answer {
		p.depth = 0
		return ByOthers
	}
	switch p.depth = depth; {
	case from.some && from.from.circles(from.parent):
		return ByCircle
	case depth > followUps:
		return ByAnswer
	}
	return ByOthers
}

// answers says whether all that has changed since the last pass are answers to the
// operator's own writes. It returns how many answers have followed one another,
// these included. traced are children whose change is accounted for already.
func (p *ParentMemory) answers(now time.Time, in Inputs, children, traced []*resource.Resource, looping bool) (depth uint16, all bool) {
	still := 0
	for _, child := range children {
		if left, ok := p.leaving[child.UID()]; ok {
			still++
			in, depth = in.at(child, left.version), max(depth, left.depth)
			left.version = strings.Clone(child.ResourceVersion())
			p.leaving[child.UID()] = left
			continue
		}
		c := p.child(object.RefOf(child), child.UID())
		if c == nil || c.version == "" || c.version == child.ResourceVersion() || c.wrote == 0 || slices.Contains(traced, child) {
			continue
		}
		if looping || c.wrote.age(now) <= answerInterval {
			in, depth = in.at(child, c.version), max(depth, c.depth)
		}
	}
	if still < len(p.leaving) {
		gone := p.goneFrom(children)
		for uid, left := range gone {
			in.Children += versionHash(uid, left.version)
			depth = max(depth, left.depth)
		}
	}
	return min(depth, maxDepth) + 1, p.Left(in)
}

// maxDepth bounds the depth of a ParentMemory. It is far beyond what counts.
const maxDepth = 1000

// A leavingChild is a child that the operator has deleted, and that still existed
// then: a finalizer holds it, or its deletion is graceful.
type leavingChild struct {
	version string // the resourceVersion that the last pass left behind
	depth   uint16 // of the ParentMemory at the deletion
}

// goneFrom forgets the leaving children that aren't among children any more, and
// returns them.
func (p *ParentMemory) goneFrom(children []*resource.Resource) map[types.UID]leavingChild {
	gone := p.leaving
	p.leaving = nil
	for _, child := range children {
		left, ok := gone[child.UID()]
		if !ok {
			continue
		}
		delete(gone, child.UID())
		if p.leaving == nil {
			p.leaving = map[types.UID]leavingChild{}
		}
		p.leaving[types.UID(strings.Clone(string(child.UID())))] = left
	}
	return gone
}

// Deleted remembers that the operator has deleted a child. left is what the API
// server has left of it, nil if it is gone.
func (p *ParentMemory) Deleted(child, left *resource.Resource) {
	if c := p.child(object.RefOf(child), child.UID()); c != nil {
		c.ended = true
	}
	if left == nil {
		return
	}
	if p.leaving == nil {
		p.leaving = map[types.UID]leavingChild{}
	}
	p.leaving[types.UID(strings.Clone(string(left.UID())))] = leavingChild{strings.Clone(left.ResourceVersion()), p.depth}
}

// Released remembers what a child, which is being deleted, has become without the
// finalizers that the operator has taken off. left is nil if it is gone.
func (p *ParentMemory) Released(child, left *resource.Resource) {
	deleted, ours := p.leaving[child.UID()]
	switch {
	case !ours: // somebody else has deleted it
	case left == nil:
		delete(p.leaving, child.UID())
	default:
		deleted.version = strings.Clone(left.ResourceVersion())
		p.leaving[child.UID()] = deleted
	}
}

// Ended says whether it is known of the child of this name that it has gone.
func (p *ParentMemory) Ended(ref object.Ref) bool {
	c := p.children.of(ref)
	return c != nil && c.ended
}

// Made says whether the child with this UID is remembered as one that the handler
// wanted.
func (p *ParentMemory) Made(child *resource.Resource) bool {
	return p.child(object.RefOf(child), child.UID()) != nil || slices.Contains(p.doomed, child.UID())
}

// Doom remembers the children that the handler wanted once and that the operator has yet to delete.
// They replace those of the last call.
func (p *ParentMemory) Doom(uids []types.UID) { p.doomed = uids }

// Lost calls lost for each child that somebody else has deleted, or has taken away
// from the operator, since the last call. children are those that the pass was
// shown, in the order of handler.Children. since is how long ago the operator has
// last written the child, as far as that is known.
func (p *ParentMemory) Lost(now time.Time, children []*resource.Resource, lost func(ref object.Ref, since time.Duration)) {
	hint := 0
	for _, c := range p.children.list {
		if c.uid == "" || c.ended {
			continue
		}
		if i, ok := find(children, c.ref(), hint); ok && children[i].UID() == c.uid {
			hint = i + 1
			continue
		}
		if c.ended = true; c.wrote != 0 {
			lost(c.ref(), c.wrote.age(now))
		}
	}
}
