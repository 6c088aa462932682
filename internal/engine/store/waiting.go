package store

import (
	"iter"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Await makes a parent wait for the end of an object, of which seen is the state that
// says that it will end. Once a watch reports that the object is gone, or that it has
// changed its owner, the Change names the parent in Woken, and the wait is over. The end of
// the parent ends the wait, too: a parent that isn't held doesn't begin to wait. Await
// returns false, and the parent doesn't wait, if no object of that name is held, or a
// newer state than seen: what will become of that is to be found out first, since no watch
// tells of it again.
func (s *Store) Await(seen *resource.Resource, parent types.UID) bool {
	ref := object.RefOf(seen)
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.mu.objects[ref.Type][ref.Key]
	if held == nil || held.ResourceVersion() != seen.ResourceVersion() && newer(held.ResourceVersion(), seen.ResourceVersion()) {
		return false
	}
	if _, held := s.mu.parents[parent]; !held {
		return true // whose removal has made the parent due
	}
	ref = ref.Detached()
	if s.mu.waiting[ref] == nil {
		s.mu.waiting[ref] = map[types.UID]struct{}{}
	}
	s.mu.waiting[ref][parent] = struct{}{}
	if s.mu.awaited[parent] == nil {
		s.mu.awaited[types.UID(strings.Clone(string(parent)))] = map[object.Ref]struct{}{}
	}
	s.mu.awaited[parent][ref] = struct{}{}
	return true
}

// AwaitOnly ends the waits of a parent for other objects than these, whose names it no
// longer wants. Only if there is one does it exclude other users of the store. No Await of
// the same parent may be under way.
func (s *Store) AwaitOnly(parent types.UID, wanted iter.Seq[object.Ref]) {
	over := s.waitsBut(parent, wanted)
	if len(over) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endWaitsLocked(parent, over)
}

// waitsBut returns the objects that a parent waits for, but for those wanted.
func (s *Store) waitsBut(parent types.UID, wanted iter.Seq[object.Ref]) map[object.Ref]struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.mu.awaited[parent]) == 0 {
		return nil
	}
	over := maps.Clone(s.mu.awaited[parent])
	for ref := range wanted {
		delete(over, ref)
	}
	return over
}

// wakeLocked returns the parents that wait for the end of an object, and ends
// their wait.
func (s *Store) wakeLocked(ref object.Ref) []types.UID {
	var woken []types.UID
	for uid := range s.mu.waiting[ref] {
		woken = append(woken, uid)
		if delete(s.mu.awaited[uid], ref); len(s.mu.awaited[uid]) == 0 {
			delete(s.mu.awaited, uid)
		}
	}
	delete(s.mu.waiting, ref)
	return woken
}

// endWaitsLocked ends waits of a parent, as far as they are not over. The objects may outlive the parent by far.
func (s *Store) endWaitsLocked(parent types.UID, over map[object.Ref]struct{}) {
	for ref := range over {
		if delete(s.mu.waiting[ref], parent); len(s.mu.waiting[ref]) == 0 {
			delete(s.mu.waiting, ref)
		}
		delete(s.mu.awaited[parent], ref)
	}
	if len(s.mu.awaited[parent]) == 0 {
		delete(s.mu.awaited, parent)
	}
}
