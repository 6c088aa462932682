package runner

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roperator/roperator/resource"
)

// An objectRef names an object of a watched type.
type objectRef struct {
	Type resource.Type
	Key  types.NamespacedName
}

func refOf(res *resource.Resource) objectRef { return objectRef{res.Type(), res.Key()} }

// String returns the kind and key, for people.
func (r objectRef) String() string { return r.Type.Kind + " " + keyText(r.Key) }

// keyText returns namespace/name, or the name alone where there is no
// namespace.
func keyText(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// A resourceMap holds the newest known state of the parents and of the
// objects that carry this operator's labels, with an index from a parent's UID
// to its children.
//
// Two sources feed it: the watches, and the answers to this operator's own
// writes. Both pass the same gate: a state enters only if its resourceVersion
// is newer than what is held, so that whatever order they arrive in, nobody
// ever reads a state older than one this process has written.
//
// It is safe for concurrent use; what it returns is immutable.
type resourceMap struct {
	parentType    resource.Type
	trackingLabel string
	// keepDeparted: parents that go are held until they have been released,
	// since they may only have left the selector.
	keepDeparted bool

	mu struct {
		sync.RWMutex
		objects  map[resource.Type]map[types.NamespacedName]*resource.Resource
		bytes    map[resource.Type]int                     // size of those objects
		parents  map[types.UID]types.NamespacedName        // parent UID -> key
		children map[types.UID]*siblings                   // parent UID -> its children
		streams  map[stream]string                         // how far a watch has come: its newest resourceVersion
		deleted  map[resource.Type]map[types.UID]tombstone // own deletes that the watch has yet to confirm
		floors   map[objectRef]string                      // of those: their last resourceVersion; nothing older has the name
		waiting  map[objectRef]map[types.UID]struct{}      // object -> parents that wait for it to go
		departed map[types.UID]*resource.Resource          // parents gone from the watch, last state
		asked    map[types.UID]struct{}                    // objects held that we have deleted
		lost     map[types.UID]int                         // parent UID -> how many children it lost without our doing
	}
}

// A stream is one watch: of a type, in a namespace or (empty) everywhere.
type stream struct {
	Type      resource.Type
	Namespace string
}

// A tombstone is what is left of an object that we deleted until the watch has
// confirmed it.
type tombstone struct {
	key     types.NamespacedName
	version string
}

// A change says which parents a new state concerns.
type change struct {
	Parents []types.UID
	// Woken are parents that waited for the object's name.
	Woken []types.UID
}

func newResourceMap(parent resource.Type, trackingLabel string) *resourceMap {
	m := &resourceMap{parentType: parent, trackingLabel: trackingLabel}
	m.mu.objects = map[resource.Type]map[types.NamespacedName]*resource.Resource{}
	m.mu.bytes = map[resource.Type]int{}
	m.mu.parents = map[types.UID]types.NamespacedName{}
	m.mu.children = map[types.UID]*siblings{}
	m.mu.streams = map[stream]string{}
	m.mu.deleted = map[resource.Type]map[types.UID]tombstone{}
	m.mu.floors = map[objectRef]string{}
	m.mu.waiting = map[objectRef]map[types.UID]struct{}{}
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

// observe takes a state that a watch delivered.
func (m *resourceMap) observe(s stream, res *resource.Resource) change {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outdatedLocked(s, res, res.ResourceVersion()) {
		return change{}
	}
	m.advanceLocked(s, res.ResourceVersion())
	return m.setAndWakeLocked(res)
}

// observeDeleted takes the last state of an object that, says a watch, is gone
// or no longer selected.
func (m *resourceMap) observeDeleted(s stream, res *resource.Resource) change {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(s, res.ResourceVersion())
	ref := refOf(res)
	m.confirmLocked(ref, res.UID())
	held := m.mu.objects[ref.Type][ref.Key]
	if held == nil {
		return change{Woken: m.wakeLocked(ref)}
	}
	if held.UID() != res.UID() || newer(held.ResourceVersion(), res.ResourceVersion()) {
		return change{}
	}
	c := m.removeLocked(ref, held)
	c.Woken = m.wakeLocked(ref)
	if _, ok := m.mu.departed[res.UID()]; ok {
		m.mu.departed[res.UID()] = res
	}
	return c
}

// replace takes a complete list: what it lacks is gone, except what this
// process wrote after the list was made.
func (m *resourceMap) replace(s stream, list []*resource.Resource, listVersion string) change {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all change
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
		ref := objectRef{s.Type, key}
		all.add(m.removeLocked(ref, held))
		all.Woken = append(all.Woken, m.wakeLocked(ref)...)
	}
	for uid, stone := range m.mu.deleted[s.Type] {
		if _, ok := listed[uid]; !ok && s.holds(stone.key) && !newer(stone.version, listVersion) {
			ref := objectRef{s.Type, stone.key}
			m.confirmLocked(ref, uid)
			all.Woken = append(all.Woken, m.wakeLocked(ref)...)
		}
	}
	return all
}

// bookmark takes a watch's word on how far it has come.
func (m *resourceMap) bookmark(s stream, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(s, version)
}

// wrote takes the answer to a write of this operator.
func (m *resourceMap) wrote(res *resource.Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := refOf(res)
	if m.mu.objects[ref.Type][ref.Key] == nil && m.passedLocked(ref, res.ResourceVersion()) {
		// The watch has come further than this write and holds no such
		// object: it was there and has gone since.
		return
	}
	m.setLocked(res)
}

// wroteDelete takes the answer to a delete of this operator: what remains of
// the object while it is being deleted, or nil if it is gone.
func (m *resourceMap) wroteDelete(res, left *resource.Resource) {
	if left != nil {
		m.wrote(left)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := refOf(res)
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

// lost returns how many children a parent has lost, which this operator hasn't
// deleted, and which haven't been explained.
func (m *resourceMap) lost(parent types.UID) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.lost[parent]
}

// losses returns what lost does for each parent.
func (m *resourceMap) losses() map[types.UID]int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.mu.lost)
}

// lostMany says whether so many parents have lost children that a list of all
// tells of them sooner than they do.
func (m *resourceMap) lostMany() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.mu.lost) >= max(manyLost, len(m.mu.parents)/listedPerRead)
}

// miss counts a child that isn't held.
func (m *resourceMap) miss(parent types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missLocked(types.UID(strings.Clone(string(parent))))
}

// explain takes n off what lost returns.
func (m *resourceMap) explain(parent types.UID, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.explainLocked(parent, n)
}

// await asks that a parent be named in the change in which a watch tells that
// ref is gone or has lost its owner. It returns false if no such object is held.
func (m *resourceMap) await(ref objectRef, parent types.UID) bool {
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

// parent returns the parent with this UID.
func (m *resourceMap) parent(uid types.UID) (*resource.Resource, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	key, ok := m.mu.parents[uid]
	if !ok {
		return nil, false
	}
	return m.mu.objects[m.parentType][key], true
}

// allParents returns the UIDs of every parent held.
func (m *resourceMap) allParents() []types.UID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	uids := make([]types.UID, 0, len(m.mu.parents))
	for uid := range m.mu.parents {
		uids = append(uids, uid)
	}
	return uids
}

// object returns the object as it is held, whoever's child it is.
func (m *resourceMap) object(ref objectRef) (*resource.Resource, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	res, ok := m.mu.objects[ref.Type][ref.Key]
	return res, ok
}

// usage returns how many objects of a type are held, and the bytes of their
// JSON.
func (m *resourceMap) usage(t resource.Type) (objects, bytes int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.mu.objects[t]), m.mu.bytes[t]
}

// departedParent returns the last state of a parent that went, until
// forgetDeparted.
func (m *resourceMap) departedParent(uid types.UID) (*resource.Resource, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	res, ok := m.mu.departed[uid]
	return res, ok
}

func (m *resourceMap) forgetDeparted(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.departed, uid)
}

// family returns a parent with all of its children, in the order of type,
// namespace and name. Owner references don't cross namespaces, so that whoever
// refers to the parent from another one, and may be nobody who has a say in the
// parent's, is no child.
func (m *resourceMap) family(uid types.UID) (parent *resource.Resource, children []*resource.Resource) {
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
	return slices.BinarySearchFunc(s.list, res, compareResources)
}

func compareResources(a, b *resource.Resource) int {
	return compareRef(a, refOf(b))
}

func (s stream) holds(key types.NamespacedName) bool {
	return s.Namespace == "" || s.Namespace == key.Namespace
}

func (c *change) add(o change) {
	c.Parents = append(c.Parents, o.Parents...)
	c.Woken = append(c.Woken, o.Woken...)
}
