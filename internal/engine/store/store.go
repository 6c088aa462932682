package store

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// manyLost is how many parents must have lost children for a list to tell
	// of them all: fewer are read one by one.
	manyLost = 32
	// listedPerRead is how many parents can be listed for what it takes to read
	// one.
	listedPerRead = 16
)

// A Store holds the newest known state of the parents and of the
// objects that carry this operator's labels, with an index from a parent's UID
// to its children.
//
// Two sources feed it: the watches, and the answers to this operator's own
// writes. Both pass the same gate: a state enters only if its resourceVersion
// is newer than what is held, so that whatever order they arrive in, nobody
// ever reads a state older than one this process has written.
//
// It is safe for concurrent use; what it returns is immutable.
type Store struct {
	parentType    resource.Type
	trackingLabel string
	// keepDeparted: parents that go are held until they have been released,
	// since they may only have left the selector.
	KeepDeparted bool

	mu struct {
		sync.RWMutex
		objects  map[resource.Type]map[types.NamespacedName]*resource.Resource
		bytes    map[resource.Type]int                     // size of those objects
		parents  map[types.UID]types.NamespacedName        // parent UID -> key
		children map[types.UID]*siblings                   // parent UID -> its children
		streams  map[Stream]string                         // how far a watch has come: its newest resourceVersion
		deleted  map[resource.Type]map[types.UID]tombstone // own deletes that the watch has yet to confirm
		floors   map[object.Ref]string                     // of those: their last resourceVersion; nothing older has the name
		waiting  map[object.Ref]map[types.UID]struct{}     // object -> parents that wait for it to go
		departed map[types.UID]*resource.Resource          // parents gone from the watch, last state
		asked    map[types.UID]struct{}                    // objects held that we have deleted
		lost     map[types.UID]int                         // parent UID -> how many children it lost without our doing
	}
}

// A Stream is one watch: of a type, in a namespace or (empty) everywhere.
type Stream struct {
	Type      resource.Type
	Namespace string
}

// A tombstone is what is left of an object that we deleted until the watch has
// confirmed it.
type tombstone struct {
	key     types.NamespacedName
	version string
}

// A Change says which parents a new state concerns.
type Change struct {
	Parents []types.UID
	// Woken are parents that waited for the object's name.
	Woken []types.UID
}

func New(parent resource.Type, trackingLabel string) *Store {
	m := &Store{parentType: parent, trackingLabel: trackingLabel}
	m.mu.objects = map[resource.Type]map[types.NamespacedName]*resource.Resource{}
	m.mu.bytes = map[resource.Type]int{}
	m.mu.parents = map[types.UID]types.NamespacedName{}
	m.mu.children = map[types.UID]*siblings{}
	m.mu.streams = map[Stream]string{}
	m.mu.deleted = map[resource.Type]map[types.UID]tombstone{}
	m.mu.floors = map[object.Ref]string{}
	m.mu.waiting = map[object.Ref]map[types.UID]struct{}{}
	m.mu.departed = map[types.UID]*resource.Resource{}
	m.mu.asked = map[types.UID]struct{}{}
	m.mu.lost = map[types.UID]int{}
	return m
}

// newer says whether resourceVersion a is newer than b. What can't be ordered
// is taken for newer, so that an unusual API server degrades to last-wins.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// Observe takes a state that a watch delivered.
func (m *Store) Observe(s Stream, res *resource.Resource) Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outdatedLocked(s, res, res.ResourceVersion()) {
		return Change{}
	}
	m.advanceLocked(s, res.ResourceVersion())
	return m.setAndWakeLocked(res)
}

// ObserveDeleted takes the last state of an object that, says a watch, is gone
// or no longer selected.
func (m *Store) ObserveDeleted(s Stream, res *resource.Resource) Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(s, res.ResourceVersion())
	ref := object.RefOf(res)
	m.confirmLocked(ref, res.UID())
	held := m.mu.objects[ref.Type][ref.Key]
	if held == nil {
		return Change{Woken: m.wakeLocked(ref)}
	}
	if held.UID() != res.UID() || newer(held.ResourceVersion(), res.ResourceVersion()) {
		return Change{}
	}
	c := m.removeLocked(ref, held)
	c.Woken = m.wakeLocked(ref)
	if _, ok := m.mu.departed[res.UID()]; ok {
		m.mu.departed[res.UID()] = res
	}
	return c
}

// Replace takes a complete list: what it lacks is gone, except what this
// process wrote after the list was made.
func (m *Store) Replace(s Stream, list []*resource.Resource, listVersion string) Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all Change
	listed := make(map[types.UID]struct{}, len(list))
	for _, res := range list {
		listed[res.UID()] = struct{}{}
		if m.outdatedLocked(s, res, listVersion) {
			continue
		}
		all.add(m.setAndWakeLocked(res))
	}
	m.advanceLocked(s, listVersion)
	for key, held := range m.mu.objects[s.Type] {
		if _, ok := listed[held.UID()]; ok || !s.holds(key) || newer(held.ResourceVersion(), listVersion) {
			continue
		}
		ref := object.Ref{Type: s.Type, Key: key}
		all.add(m.removeLocked(ref, held))
		all.Woken = append(all.Woken, m.wakeLocked(ref)...)
	}
	for uid, stone := range m.mu.deleted[s.Type] {
		if _, ok := listed[uid]; !ok && s.holds(stone.key) && !newer(stone.version, listVersion) {
			ref := object.Ref{Type: s.Type, Key: stone.key}
			m.confirmLocked(ref, uid)
			all.Woken = append(all.Woken, m.wakeLocked(ref)...)
		}
	}
	return all
}

// Bookmark takes a watch's word on how far it has come.
func (m *Store) Bookmark(s Stream, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(s, version)
}

// Wrote takes the answer to a write of this operator.
func (m *Store) Wrote(res *resource.Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := object.RefOf(res)
	if m.mu.objects[ref.Type][ref.Key] == nil && m.passedLocked(ref, res.ResourceVersion()) {
		// The watch has come further than this write and holds no such
		// object: it was there and has gone since.
		return
	}
	m.setLocked(res)
}

// WroteDelete takes the answer to a delete of this operator: what remains of
// the object while it is being deleted, or nil if it is gone.
func (m *Store) WroteDelete(res, left *resource.Resource) {
	if left != nil {
		m.Wrote(left)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := object.RefOf(res)
	held := m.mu.objects[ref.Type][ref.Key]
	if held == nil || held.UID() != res.UID() { // the watch was faster
		if owner, ok := m.ownerOf(res); ok {
			m.explainLocked(owner, 1)
		}
		return
	}
	m.mu.asked[types.UID(strings.Clone(string(res.UID())))] = struct{}{}
	if left != nil {
		return
	}
	gone := m.mu.deleted[ref.Type]
	if gone == nil {
		gone = map[types.UID]tombstone{}
		m.mu.deleted[ref.Type] = gone
	}
	gone[res.UID()] = tombstone{ref.Key, held.ResourceVersion()}
	m.mu.floors[ref] = held.ResourceVersion()
	m.removeLocked(ref, held)
}

// Lost returns how many children a parent has lost, which this operator hasn't
// deleted, and which haven't been explained.
func (m *Store) Lost(parent types.UID) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.lost[parent]
}

// Losses returns what lost does for each parent.
func (m *Store) Losses() map[types.UID]int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.mu.lost)
}

// LostMany says whether so many parents have lost children that a list of all
// tells of them sooner than they do.
func (m *Store) LostMany() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.mu.lost) >= max(manyLost, len(m.mu.parents)/listedPerRead)
}

// Miss counts a child that isn't held.
func (m *Store) Miss(parent types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missLocked(types.UID(strings.Clone(string(parent))))
}

// Explain takes n off what lost returns.
func (m *Store) Explain(parent types.UID, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.explainLocked(parent, n)
}

// Await asks that a parent be named in the change in which a watch tells that
// ref is gone or has lost its owner. It returns false if no such object is held.
func (m *Store) Await(ref object.Ref, parent types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.objects[ref.Type][ref.Key] == nil {
		return false
	}
	if m.mu.waiting[ref] == nil {
		m.mu.waiting[ref] = map[types.UID]struct{}{}
	}
	m.mu.waiting[ref][parent] = struct{}{}
	return true
}

// Parent returns the parent with this UID.
func (m *Store) Parent(uid types.UID) (*resource.Resource, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	key, ok := m.mu.parents[uid]
	if !ok {
		return nil, false
	}
	return m.mu.objects[m.parentType][key], true
}

// AllParents returns the UIDs of every parent held.
func (m *Store) AllParents() []types.UID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	uids := make([]types.UID, 0, len(m.mu.parents))
	for uid := range m.mu.parents {
		uids = append(uids, uid)
	}
	return uids
}

// Object returns the object as it is held, whoever's child it is.
func (m *Store) Object(ref object.Ref) (*resource.Resource, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	res, ok := m.mu.objects[ref.Type][ref.Key]
	return res, ok
}

// Usage returns how many objects of a type are held, and the bytes of their
// JSON.
func (m *Store) Usage(t resource.Type) (objects, bytes int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.mu.objects[t]), m.mu.bytes[t]
}

// Sizes adds to out how many entries there are of each kind.
func (m *Store) Sizes(out map[string]int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for t, objects := range m.mu.objects {
		out["objects "+t.String()] = len(objects)
	}
	for t, tombstones := range m.mu.deleted {
		out["tombstones "+t.String()] = len(tombstones)
	}
	out["parents by UID"] = len(m.mu.parents)
	out["children by parent"] = len(m.mu.children)
	out["floors"] = len(m.mu.floors)
	out["waiting"] = len(m.mu.waiting)
	out["departed"] = len(m.mu.departed)
}

// DepartedParent returns the last state of a parent that went, until
// forgetDeparted.
func (m *Store) DepartedParent(uid types.UID) (*resource.Resource, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	res, ok := m.mu.departed[uid]
	return res, ok
}

func (m *Store) ForgetDeparted(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.departed, uid)
}

// Family returns a parent with all of its children, in the order of type,
// namespace and name. Owner references don't cross namespaces, so that whoever
// refers to the parent from another one, and may be nobody who has a say in the
// parent's, is no child.
func (m *Store) Family(uid types.UID) (parent *resource.Resource, children []*resource.Resource) {
	m.mu.RLock()
	key, ok := m.mu.parents[uid]
	if ok {
		parent = m.mu.objects[m.parentType][key]
		if family := m.mu.children[uid]; family != nil {
			children = make([]*resource.Resource, 0, len(family.list))
			for _, child := range family.list {
				if parent.Namespace() == "" || child.Namespace() == parent.Namespace() {
					children = append(children, child)
				}
			}
		}
	}
	m.mu.RUnlock()
	return parent, children
}

// siblings are the children of one parent. There is a slice for them rather
// than a map, which would take more memory than most of the objects.
type siblings struct {
	uid  types.UID            // the parent's, in a string of its own
	list []*resource.Resource // in the order of type, namespace and name
}

// find returns where res, or what is held under its name, is or belongs.
func (s *siblings) find(res *resource.Resource) (int, bool) {
	return slices.BinarySearchFunc(s.list, res, object.Compare)
}

func (s Stream) holds(key types.NamespacedName) bool {
	return s.Namespace == "" || s.Namespace == key.Namespace
}

func (c *Change) add(o Change) {
	c.Parents = append(c.Parents, o.Parents...)
	c.Woken = append(c.Woken, o.Woken...)
}
