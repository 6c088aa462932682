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

// Wrote stores the state that the API server returned for a write of this
// operator, unless a newer one is held or the object is known to be gone. The Change
// names the parents that the write concerns, the object's own among them. The watch
// won't name them again: of a state that is held it tells nothing, nor of the end of
// an object whose name another one has by now.
func (s *Store) Wrote(res *resource.Resource) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(res)
	s.answeredLocked(res)
	if s.mu.objects[ref.Type][ref.Key] == nil && s.passedLocked(ref, res.ResourceVersion()) {
		// The watch has come further than this write, and the object isn't held:
		// the object was deleted after the write.
		return Change{}
	}
	return s.setAndWakeLocked(res)
}

// Answered notes the resourceVersion of the answer to a write of an object that no watch
// of this operator delivers.
func (s *Store) Answered(res *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answeredLocked(res)
}

func (s *Store) answeredLocked(res *resource.Resource) {
	if wrote := s.mu.wrote[res.Type()]; wrote == "" || Older(wrote, res.ResourceVersion()) {
		s.mu.wrote[res.Type()] = res.ResourceVersion()
	}
}

// An ownDelete is a delete by this operator, of an object that is held. It is noted
// before the request is sent, since the watch may tell that the object is gone before
// the API server has answered.
type ownDelete struct {
	answered bool // the API server has accepted the delete
	gone     bool // of a delete under way: the object isn't held any more, and wasn't counted as missing
}

// Deletes notes that this operator is about to delete the object res. So the object
// isn't counted as missing, however soon the watch tells that it is gone. The caller
// must then call WroteDelete or FailedDelete. An object that isn't held isn't noted.
func (s *Store) Deletes(res *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(res)
	if held := s.mu.objects[ref.Type][ref.Key]; held != nil && held.UID() == res.UID() {
		s.mu.asked[types.UID(strings.Clone(string(res.UID())))] = &ownDelete{}
	}
}

// FailedDelete takes back what Deletes has noted: this operator hasn't deleted the
// object res. If the object is gone all the same, somebody else has deleted it, and
// it counts as missing.
func (s *Store) FailedDelete(res *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := s.mu.asked[res.UID()]
	delete(s.mu.asked, res.UID())
	if note == nil || !note.gone {
		return
	}
	if owner, ok := s.ownerOf(res); ok {
		s.missLocked(owner)
	}
}

// WroteDelete notes that this operator has deleted the object res. left is the
// state that the API server returned if the object still has to be finalized,
// nil if the object is gone. The Change is that of Wrote for what is left.
func (s *Store) WroteDelete(res, left *resource.Resource) (c Change) {
	if left != nil {
		c = s.Wrote(left)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(res)
	held := s.mu.objects[ref.Type][ref.Key]
	if held == nil || held.UID() != res.UID() { // the watch was faster
		delete(s.mu.asked, res.UID())
		return c
	}
	s.mu.asked[types.UID(strings.Clone(string(res.UID())))] = &ownDelete{answered: true}
	if left != nil {
		return c
	}
	gone := s.mu.deleted[ref.Type]
	if gone == nil {
		gone = map[types.UID]tombstone{}
		s.mu.deleted[ref.Type] = gone
	}
	gone[res.UID()] = tombstone{key: ref.Key, version: held.ResourceVersion()}
	s.mu.floors[ref] = held.ResourceVersion()
	s.removeLocked(ref, held)
	return c
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

// goneLocked notes that an object isn't held any more, and says whether this operator
// has deleted it, or is about to.
func (s *Store) goneLocked(uid types.UID) (own bool) {
	note := s.mu.asked[uid]
	switch {
	case note == nil:
		return false
	case note.answered:
		delete(s.mu.asked, uid)
	default:
		note.gone = true // until the answer says what became of the request
	}
	return true
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
