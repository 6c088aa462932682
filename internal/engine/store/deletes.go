package store

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A tombstone stands for an object that this operator has deleted, until a watch
// has confirmed the deletion.
type tombstone struct {
	key     types.NamespacedName
	version string             // the object's last resourceVersion
	overdue bool               // Overdue was called since the delete
	read    bool               // the object was read since then, and is gone
	dropped *resource.Resource // the newest state after version that was delivered; nil: there was none
	owner   types.UID          // of dropped, as admitLocked says
}

// newest returns the newest resourceVersion that is known of the object.
func (t *tombstone) newest() string {
	if t.dropped != nil {
		return t.dropped.ResourceVersion()
	}
	return t.version
}

// Overdue returns the objects that this operator has deleted, and whose end no watch has
// confirmed between the last call and this one, until ReadGone or Contradicts is called
// with what has become of them. some says that there are deletes of which a later call
// may tell.
func (s *Store) Overdue() (overdue map[types.UID]object.Ref, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	overdue = map[types.UID]object.Ref{}
	for t, stones := range s.mu.deleted {
		for uid, stone := range stones {
			if stone.read {
				continue
			}
			if stone.overdue {
				overdue[uid] = object.Ref{Type: t, Key: stone.key}
			}
			some, stone.overdue = true, true
			stones[uid] = stone
		}
	}
	return overdue, some
}

// ReadGone notes that an object which this operator has deleted was read, and isn't
// there, or is on its way out. What the watch still tells of it from before remains
// outdated.
func (s *Store) ReadGone(ref object.Ref, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stone, ok := s.mu.deleted[ref.Type][uid]; ok {
		stone.read = true
		s.mu.deleted[ref.Type][uid] = stone
	}
}

// Contradicts stores the state of an object that was read after the API server had
// answered that this operator's delete was carried out, or a newer state if a watch has
// delivered one meanwhile. A child that is there and isn't being deleted contradicts the
// answer, and so does a parent that was let go and is there. The tombstone falls then, and
// the Change names the parent.
func (s *Store) Contradicts(live *resource.Resource) (c Change, contradicts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(live)
	stone, ours := s.mu.deleted[ref.Type][live.UID()]
	if !ours || live.IsDeleting() && ref.Type != s.parentType {
		return Change{}, false
	}
	s.confirmLocked(ref, live.UID())
	live, owner := s.admitLocked(live)
	if stone.dropped != nil && !newer(live.ResourceVersion(), stone.dropped.ResourceVersion()) {
		live, owner = stone.dropped, stone.owner
	}
	c = s.setLocked(live, owner)
	s.mu.undeleted[types.UID(strings.Clone(string(live.UID())))] = struct{}{}
	return c, true
}

// Contradicted says whether an object that is held was there after the API server had
// answered that it is deleted.
func (s *Store) Contradicted(uid types.UID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, contradicted := s.mu.undeleted[uid]
	return contradicted
}

// deletedLocked notes that this operator has deleted an object, and that it is gone.
func (s *Store) deletedLocked(ref object.Ref, uid types.UID) {
	delete(s.mu.deleting, uid)
	held := s.mu.objects[ref.Type][ref.Key]
	if held == nil || held.UID() != uid {
		return // the watch was faster
	}
	uid = types.UID(strings.Clone(string(uid)))
	gone := s.mu.deleted[ref.Type]
	if gone == nil {
		gone = map[types.UID]tombstone{}
		s.mu.deleted[ref.Type] = gone
	}
	gone[uid] = tombstone{key: ref.Key, version: held.ResourceVersion()}
	s.mu.floors[ref] = held.ResourceVersion()
	s.mu.deleting[uid] = struct{}{}
	s.removeLocked(ref, held)
}

// goneLocked notes that an object isn't held any more, and reports whether this operator has deleted it, or
// is about to. In the latter case the open delete remembers the owner, which misses the object if the
// delete fails.
func (s *Store) goneLocked(ref object.Ref, uid, owner types.UID) (own bool) {
	if _, own = s.mu.deleting[uid]; own {
		delete(s.mu.deleting, uid)
		return true
	}
	for _, w := range s.mu.open[ref] {
		if w.Deletes == uid {
			w.missed = owner
			return true
		}
	}
	return false
}

// confirmLocked removes the tombstone of an object, if it has one.
func (s *Store) confirmLocked(ref object.Ref, uid types.UID) {
	stone, ours := s.mu.deleted[ref.Type][uid]
	if !ours {
		return
	}
	delete(s.mu.deleted[ref.Type], uid)
	if s.mu.floors[ref] == stone.version { // else the floor belongs to a later object of the same name
		delete(s.mu.floors, ref)
	}
}

// forgetDeletesLocked forgets which objects of a type this operator has deleted, and wakes the parents
// that wait for their end.
func (s *Store) forgetDeletesLocked(t resource.Type) (c Change) {
	for _, stone := range s.mu.deleted[t] {
		c.Woken = append(c.Woken, s.wakeLocked(object.Ref{Type: t, Key: stone.key})...)
	}
	delete(s.mu.deleted, t)
	for ref := range s.mu.floors {
		if ref.Type == t {
			delete(s.mu.floors, ref)
		}
	}
	return c
}
