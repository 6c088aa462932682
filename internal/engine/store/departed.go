package store

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A departed is a parent that has left the watch.
type departed struct {
	last *resource.Resource // its last known state
	seen bool               // the state in which it left was delivered
}

// KeepDeparted says whether the store holds the last state of each parent that leaves
// the watch from now on, until Released or ForgetDeparted. An operator with a parent
// selector wants that: such a parent may still exist and have to be released. A replica
// that only waits for the lease must not want it: nobody would forget those states.
func (s *Store) KeepDeparted(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.keepDeparted = keep
}

// Depart notes a parent that has left the watch while no operator ran: res is its last
// known state, of which the metadata are enough. It returns false, and notes nothing,
// if the parent is held or the store doesn't keep them: see KeepDeparted.
func (s *Store) Depart(res *resource.Resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.mu.parents[res.UID()]; held || !s.mu.keepDeparted {
		return false
	}
	s.mu.departed[res.UID()] = departed{res, true}
	return true
}

// DepartedParent returns the last state of a parent that has left the watch,
// until Released or ForgetDeparted; false if the store doesn't keep it.
func (s *Store) DepartedParent(uid types.UID) (*resource.Resource, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.mu.departed[uid]
	return d.last, ok
}

// LeftUnseen says whether DepartedParent returns what was held of a parent that a list
// lacked: somebody may have changed the parent since.
func (s *Store) LeftUnseen(uid types.UID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.mu.departed[uid]
	return ok && !d.seen
}

// ForgetDeparted forgets a parent that has left the watch and is known to be gone for
// good. It does nothing if there is none.
func (s *Store) ForgetDeparted(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.departed, uid)
	s.forgetNamesLocked(uid)
}

// Released drops the state of a parent that DepartedParent has returned. It does
// nothing if that isn't the last state any more: the parent has come back, and perhaps
// left again.
func (s *Store) Released(last *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.departed[last.UID()].last == last {
		delete(s.mu.departed, last.UID())
	}
}
