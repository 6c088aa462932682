package store

import (
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Suppose stores a state of a parent that the API server doesn't have, whatever is held
// of it. It is for a plan: no watch may run that delivers the parents.
func (s *Store) Suppose(parent *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(parent)
	s.enterLocked(ref, s.mu.objects[ref.Type][ref.Key], parent, "")
}
