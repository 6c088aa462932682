package store

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
)

// Await makes a parent wait for the end of an object. Once a watch reports that
// the object is gone, or that it has changed its owner, the Change names the
// parent in Woken, and the wait is over. The end of the parent ends the wait, too: a
// parent that isn't held doesn't begin to wait. Await returns false, and the parent
// doesn't wait, if the object isn't held.
func (s *Store) Await(ref object.Ref, parent types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.objects[ref.Type][ref.Key] == nil {
		return false
	}
	if _, held := s.mu.parents[parent]; !held {
		return true // whose removal has made the parent due
	}
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

// endWaitsLocked ends every wait of a parent that is gone. The objects may outlive the
// parent by far.
func (s *Store) endWaitsLocked(parent types.UID) {
	for ref := range s.mu.awaited[parent] {
		if delete(s.mu.waiting[ref], parent); len(s.mu.waiting[ref]) == 0 {
			delete(s.mu.waiting, ref)
		}
	}
	delete(s.mu.awaited, parent)
}
