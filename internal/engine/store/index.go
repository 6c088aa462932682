package store

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

func (m *Store) advanceLocked(s Stream, version string) {
	if newer(version, m.mu.streams[s]) {
		m.mu.streams[s] = version
	}
}

// outdatedLocked says that a state, which a stream told of at a version, is of
// an object that has gone since: a list that was asked for meanwhile has come
// further and holds no such object.
func (m *Store) outdatedLocked(s Stream, res *resource.Resource, version string) bool {
	return m.mu.objects[s.Type][res.Key()] == nil && m.mu.streams[s] != "" && newer(m.mu.streams[s], version)
}

// passedLocked says whether the watch that covers ref has come as far as
// version. Types without a watch (none is lost by adding their objects)
// haven't.
func (m *Store) passedLocked(ref object.Ref, version string) bool {
	for _, ns := range []string{"", ref.Key.Namespace} {
		if at, ok := m.mu.streams[Stream{ref.Type, ns}]; ok {
			return !newer(version, at)
		}
	}
	return false
}

// setAndWakeLocked is setLocked for a state that a watch delivered. What an
// object's owner no longer holds, be it that it was orphaned, is news for those
// who wait for its name.
func (m *Store) setAndWakeLocked(res *resource.Resource) Change {
	ref := object.RefOf(res)
	waited := len(m.mu.waiting[ref]) > 0
	var before types.UID
	held := m.mu.objects[ref.Type][ref.Key]
	if waited && held != nil {
		before, _ = m.ownerOf(held)
	}
	c := m.setLocked(res)
	if !waited || held == nil {
		return c
	}
	if after, _ := m.ownerOf(res); after != before {
		c.Woken = append(c.Woken, m.wakeLocked(ref)...)
	}
	return c
}

// setLocked puts a state into the map if it is newer than what is held.
func (m *Store) setLocked(res *resource.Resource) Change {
	ref := object.RefOf(res)
	if _, gone := m.mu.deleted[ref.Type][res.UID()]; gone {
		return Change{}
	}
	held := m.mu.objects[ref.Type][ref.Key]
	if held != nil && !newer(res.ResourceVersion(), held.ResourceVersion()) {
		return Change{}
	}
	if floor, ok := m.mu.floors[ref]; ok && !newer(res.ResourceVersion(), floor) {
		return Change{} // a predecessor of what we have deleted
	}
	var c Change
	var before types.UID // the owner so far
	if held != nil {
		if held.UID() != res.UID() {
			c = m.removeLocked(ref, held)
		} else {
			m.mu.bytes[ref.Type] -= held.Size()
			before, _ = m.ownerOf(held)
		}
	}
	if m.mu.objects[ref.Type] == nil {
		m.mu.objects[ref.Type] = map[types.NamespacedName]*resource.Resource{}
	}
	m.mu.objects[ref.Type][ref.Key] = res
	m.mu.bytes[ref.Type] += res.Size()
	if ref.Type == m.parentType {
		m.mu.parents[res.UID()] = ref.Key
		delete(m.mu.departed, res.UID())
		c.Parents = append(c.Parents, res.UID())
		return c
	}
	owner, owned := m.ownerOf(res)
	if before != "" && before != owner {
		before = m.unindexLocked(before, held)
		c.Parents = append(c.Parents, before)
		m.missLocked(before)
	}
	if owned {
		family := m.indexLocked(owner, res)
		if !slices.Contains(c.Parents, family.uid) {
			c.Parents = append(c.Parents, family.uid)
		}
	}
	return c
}

func (m *Store) removeLocked(ref object.Ref, held *resource.Resource) Change {
	delete(m.mu.objects[ref.Type], ref.Key)
	m.mu.bytes[ref.Type] -= held.Size()
	_, asked := m.mu.asked[held.UID()]
	delete(m.mu.asked, held.UID())
	var c Change
	if ref.Type == m.parentType {
		delete(m.mu.parents, held.UID())
		delete(m.mu.lost, held.UID())
		if m.KeepDeparted {
			m.mu.departed[held.UID()] = held
		}
		c.Parents = append(c.Parents, held.UID())
		return c
	}
	if owner, ok := m.ownerOf(held); ok {
		owner = m.unindexLocked(owner, held)
		c.Parents = append(c.Parents, owner)
		if !asked {
			m.missLocked(owner)
		}
	}
	return c
}

// missLocked counts a child that a parent has lost.
func (m *Store) missLocked(parent types.UID) {
	if _, there := m.mu.parents[parent]; there {
		m.mu.lost[parent]++
	}
}

func (m *Store) explainLocked(parent types.UID, n int) {
	if m.mu.lost[parent] <= n {
		delete(m.mu.lost, parent)
	} else {
		m.mu.lost[parent] -= n
	}
}

// confirmLocked takes away the tombstone of an object that we deleted.
func (m *Store) confirmLocked(ref object.Ref, uid types.UID) {
	stone, ours := m.mu.deleted[ref.Type][uid]
	if !ours {
		return
	}
	delete(m.mu.deleted[ref.Type], uid)
	if m.mu.floors[ref] == stone.version { // else it is that of a later one
		delete(m.mu.floors, ref)
	}
}

// indexLocked makes res one of its owner's children, in the place of what has
// its name.
func (m *Store) indexLocked(owner types.UID, res *resource.Resource) *siblings {
	family := m.mu.children[owner]
	if family == nil {
		// The owner's UID is a part of the child's JSON, which must not be held
		// as long as the key is.
		family = &siblings{uid: types.UID(strings.Clone(string(owner)))}
		m.mu.children[family.uid] = family
	}
	i, there := family.find(res)
	if there {
		family.list[i] = res
	} else {
		family.list = slices.Insert(family.list, i, res)
	}
	return family
}

// unindexLocked takes a child from its owner, whose UID it returns.
func (m *Store) unindexLocked(owner types.UID, child *resource.Resource) types.UID {
	family := m.mu.children[owner]
	if family == nil {
		return owner
	}
	if i, there := family.find(child); there {
		family.list = slices.Delete(family.list, i, i+1)
	}
	if len(family.list) == 0 {
		delete(m.mu.children, owner)
	}
	return family.uid
}

func (m *Store) wakeLocked(ref object.Ref) []types.UID {
	var woken []types.UID
	for uid := range m.mu.waiting[ref] {
		woken = append(woken, uid)
	}
	delete(m.mu.waiting, ref)
	return woken
}

// ownerOf returns the UID of the parent whose child res is: it carries the
// tracking label with that UID and has the parent as controller. Whoever
// merely carries the label (people copy manifests, EndpointSlices copy the
// labels of their Service) is nobody's child.
func (m *Store) ownerOf(res *resource.Resource) (types.UID, bool) {
	if res.Type() == m.parentType {
		return "", false
	}
	label, ok := res.Label(m.trackingLabel)
	if !ok || label == "" {
		return "", false
	}
	controller := object.ControllerOf(res)
	if controller == nil || string(controller.UID) != label {
		return "", false
	}
	return controller.UID, true
}
