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
	version string // the object's last resourceVersion
}

// Wrote stores the state that the API server returned for a write of this
// operator, unless a newer one is held or the object is known to be gone.
func (s *Store) Wrote(res *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(res)
	if s.mu.objects[ref.Type][ref.Key] == nil && s.passedLocked(ref, res.ResourceVersion()) {
		// The watch has come further than this write, and the object isn't held:
		// the object was deleted after the write.
		return
	}
	s.setLocked(res)
}

// WroteDelete notes that this operator has deleted the object res. left is the
// state that the API server returned if the object still has to be finalized,
// nil if the object is gone.
func (s *Store) WroteDelete(res, left *resource.Resource) {
	if left != nil {
		s.Wrote(left)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(res)
	held := s.mu.objects[ref.Type][ref.Key]
	if held == nil || held.UID() != res.UID() { // the watch was faster, and counted a missing child
		if owner, ok := s.ownerOf(res); ok {
			s.acknowledgeLocked(owner, 1)
		}
		return
	}
	s.mu.asked[types.UID(strings.Clone(string(res.UID())))] = struct{}{}
	if left != nil {
		return
	}
	gone := s.mu.deleted[ref.Type]
	if gone == nil {
		gone = map[types.UID]tombstone{}
		s.mu.deleted[ref.Type] = gone
	}
	gone[res.UID()] = tombstone{ref.Key, held.ResourceVersion()}
	s.mu.floors[ref] = held.ResourceVersion()
	s.removeLocked(ref, held)
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
