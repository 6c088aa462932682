package plan

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

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

// LastErrors returns which children the last pass over the parent with this UID
// couldn't write. It may be called while a pass is under way.
func (m *Memory) LastErrors(parent types.UID) []handler.ChildError {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.mu.parents[parent]; p != nil {
		return p.LastErrors()
	}
	return nil
}

// Waits says, as texts, what the last pass over the parent with this UID waited for. It may be
// called while a pass is under way.
func (m *Memory) Waits(parent types.UID) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.mu.parents[parent]; p != nil {
		return p.Waits()
	}
	return nil
}

// LastError returns the text of the last failure of the parent with this UID, "" if its last pass
// succeeded. It may be called while a pass is under way.
func (m *Memory) LastError(parent types.UID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.mu.parents[parent]; p != nil {
		return p.LastError()
	}
	return ""
}

// Len returns the number of parents that are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.parents)
}

// A ParentMemory is what is remembered of one parent from pass to pass. Only its
// methods change it, and all of those are in conditions.go and in the files named memory.
// It isn't safe for concurrent use, LastError, LastErrors and Waits aside. The zero value
// remembers nothing.
type ParentMemory struct {
	// types is the catalog by which the children were compared last; nil: none
	// were.
	types    *catalog.Catalog
	children childMemories
	status   statusMemory
	// conditions are the times that conditions of the status were given and that the live
	// status doesn't have; nil: there are none.
	conditions map[conditionKey]conditionTime
	// statusDeferred: the last pass left the status to the next pass.
	statusDeferred bool
	// progress: children were given new states, and no status was written since.
	progress bool
	// finalized is the parent's deletionTimestamp when the handler had finalized it, in
	// seconds since 1970; zero: the handler hasn't.
	finalized int64
	// recreating are the children that the operator has deleted to create them anew, until
	// it has. Nil: there are none.
	recreating map[object.Ref]struct{}
	// ending are the children that were being deleted before this process had a plan for the parent, with the
	// hashes of what they were given: see FindEnding. Nil: there were none.
	ending map[object.Ref]jsonvalue.Digest
	// planned: a pass of this process has had a plan for the children.
	planned bool
	// inherited: the parent was there when this process began, so that it may have children
	// that nothing is remembered of.
	inherited bool
	// absent are the children that a gate holds up, and that were sought and not found. Nil:
	// there are none.
	absent    map[object.Ref]struct{}
	readiness readinessMemory
	// paused: the last pass has found the parent paused; unpaused: it hasn't. Neither: there was
	// no pass yet.
	paused, unpaused bool
	// rivals say, as texts, who else writes objects that are nearly in a conflict loop. Nil:
	// nobody is known.
	rivals map[object.Ref]string
	// terminating are the namespaces in which the last pass could create nothing,
	// since they were being deleted.
	terminating []string
	// foretold is the digest of the changes that a dry run last foresaw and logged.
	foretold jsonvalue.Digest
	// waits say, as texts, what the last pass waited for; nil: nothing.
	waits atomic.Pointer[[]string]
	// lastError is the text of the last failure; nil: the last pass succeeded.
	lastError atomic.Pointer[failureText]
	// ends is the parent's resourceVersion when its end was awaited last (empty: it
	// wasn't), and endAwaited how long the end was awaited then.
	ends       string
	endAwaited time.Duration
	// setbacks are the writes of the last pass that came to nothing. Nil: there are
	// none.
	setbacks map[object.Ref]*setback
	// drifts are the children with fields whose correction was rejected. Nil: there are none.
	drifts map[object.Ref]*keptDrift
	// held are the batches of which the last plan left the rest untried. Nil: there are none.
	held map[Batch]*held
	// stirred: something has happened since the last pass that may have ended the
	// cause for which a write of a child was refused.
	stirred bool
	// lastErrors are what the last pass couldn't write, as the handler is shown it.
	lastErrors atomic.Pointer[[]handler.ChildError]
}

// A statusMemory is a desired status, and the live one that the API server made
// of it.
type statusMemory struct {
	desired, live jsonvalue.Digest
	refusal       *statusRefusal // nil: the last write wasn't refused
	awaits        string         // the parent's resourceVersion at the last conflict; empty: there was none
	conflicts     int            // since the last write that was accepted
}

// Under makes this the catalog of the passes from now on. What was learned of
// children of a type whose schema has changed since is unlearned.
func (p *ParentMemory) Under(types *catalog.Catalog) {
	if p.types == types {
		return
	}
	p.types = types
	for _, c := range p.children.list {
		if now := types.Of(c.kind.Type); now != nil && now != c.kind.Base() {
			c.kind = now
			c.unlearn()
			delete(p.drifts, c.ref())
		}
	}
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

// Accept remembers that live is what the API server made of d, and that the two
// still differ in rest.
func (p *ParentMemory) Accept(d *Desired, live *resource.Resource, rest []merge.Difference) {
	c := accepting(d, live, rest)
	c.version = live.ResourceVersion()
	delete(p.absent, d.ref)
	p.children.put(c)
}

// Written notes that a child was written, so that it need not be created anew any more.
func (p *ParentMemory) Written(d *Desired) {
	delete(p.recreating, d.ref)
	delete(p.ending, d.ref)
}

// Carry remembers that the child of an action was compared, and is as desired but for the values that
// the API server has chosen. What is known of those stays.
func (p *ParentMemory) Carry(a *Action) {
	d, live := a.Want, a.Live
	c := p.child(d.ref, live.UID())
	if c == nil {
		p.Accept(d, live, slices.Concat(a.kept.chosen, a.kept.oneWay))
		return
	}
	delete(p.absent, d.ref)
	if p.drifts[d.ref].met(live); len(a.kept.rejected) == 0 {
		delete(p.drifts, d.ref)
	}
	c.kind, c.sum, c.hash, c.version = d.kind, d.sum, d.hash, live.ResourceVersion()
	if len(a.kept.oneWay) > 0 {
		c.kept = newKept(slices.Concat(a.kept.chosen, a.kept.oneWay))
	}
}

// Pause remembers whether the parent is paused. It says whether that is news, and whether
// the parent is known not to have been paused before.
func (p *ParentMemory) Pause(paused bool) (news, known bool) {
	news, known = paused != p.paused, p.unpaused
	p.paused, p.unpaused = paused, !paused
	return news, known
}

// Children returns of how many children something is remembered.
func (p *ParentMemory) Children() int { return len(p.children.list) }

// DeferStatus says whether a pass leaves the status to the next pass. It does if it may, but not
// twice in a row. DeferStatus remembers the answer.
func (p *ParentMemory) DeferStatus(may bool) bool {
	p.statusDeferred = may && !p.statusDeferred
	return p.statusDeferred
}

// KnowsStatus says whether live is what the API server made of this desired status
// when it was last accepted.
func (p *ParentMemory) KnowsStatus(desired, live any) bool {
	return p.status.desired == jsonvalue.Sum(desired) && p.status.live == jsonvalue.Sum(live)
}

// WroteStatus reports whether this process has written the status.
func (p *ParentMemory) WroteStatus() bool { return p.status.desired != (jsonvalue.Digest{}) }

// LeftStatus says whether live is what the API server made of the desired status that was last
// accepted, whatever that was.
func (p *ParentMemory) LeftStatus(live any) bool { return p.status.live == jsonvalue.Sum(live) }

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

// Wait remembers what a reconciliation waits for, as texts, and returns those for which the
// last one didn't wait. It keeps the slice. It takes time linear in the number of texts, and
// allocates nothing if they are those of the last reconciliation.
func (p *ParentMemory) Wait(texts []string) (news []string) {
	before := p.Waits()
	if slices.Equal(before, texts) {
		return nil
	}
	known := make(map[string]struct{}, len(before))
	for _, text := range before {
		known[text] = struct{}{}
	}
	for _, text := range texts {
		if _, ok := known[text]; !ok {
			news = append(news, text)
		}
	}
	if len(texts) == 0 {
		p.waits.Store(nil)
		return nil
	}
	kept := texts // not the parameter, which would be allocated in each call
	p.waits.Store(&kept)
	return news
}

// Waits says, as texts, what the last pass waited for, nil if it was nothing. The slice is
// read only. Waits may be called beside all other methods.
func (p *ParentMemory) Waits() []string {
	if texts := p.waits.Load(); texts != nil {
		return *texts
	}
	return nil
}

// Suppose remembers that the API server makes an object of d that differs from d in rest. Whether
// live, that object, satisfies d is still to be compared.
func (p *ParentMemory) Suppose(d *Desired, live *resource.Resource, rest []merge.Difference) {
	p.children.put(accepting(d, live, rest))
}

// Progress notes that children were given new states.
func (p *ParentMemory) Progress() { p.progress = true }

// TakeProgress reports whether there was Progress since the last status that was written. The caller writes one.
func (p *ParentMemory) TakeProgress() bool {
	made := p.progress
	p.progress = false
	return made
}
