package store

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A parent's count of missing children rises with each child that disappears or
// changes its owner although this operator hasn't deleted the child. While the
// count isn't zero, a pass asks the API server whether the parent itself is being
// deleted before the pass creates children.

const (
	// manyLost is the least number of parents with missing children for which one
	// list of all parents is cheaper than a read of each.
	manyLost = 32
	// listedPerRead is how many parents can be listed at the cost of one read.
	listedPerRead = 16
)

// Lost returns a parent's count of missing children.
func (s *Store) Lost(parent types.UID) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.lost[parent]
}

// Losses returns the counts of missing children by parent UID. Parents that miss
// no child are left out. The map is the caller's.
func (s *Store) Losses() map[types.UID]int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.mu.lost)
}

// LostMany says whether so many parents miss children that one list of all
// parents is cheaper than a read of each of them.
func (s *Store) LostMany() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.mu.lost) >= max(manyLost, len(s.mu.parents)/listedPerRead)
}

// ParentsBehind says whether children were listed at a newer resourceVersion than the
// watches of the parents have delivered. What such a list lacks may have gone along with
// a parent that is still held, and that nobody has counted a missing child for.
func (s *Store) ParentsBehind() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.childrenAsOf == "" {
		return false
	}
	for from, at := range s.mu.streams {
		if from.Type == s.parentType && newer(s.mu.childrenAsOf, at) {
			return true
		}
	}
	return false
}

// ChildrenAsOf returns the resourceVersion of the newest list of children, for
// ParentsListed.
func (s *Store) ChildrenAsOf() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.childrenAsOf
}

// ParentsListed notes that all parents have been listed since the newest list of
// children was that of asOf, whatever the two resourceVersions say.
func (s *Store) ParentsListed(asOf string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.childrenAsOf == asOf {
		s.mu.childrenAsOf = ""
	}
}

// Miss adds one to a parent's count of missing children, for a child that the
// store doesn't hold. It does nothing if the parent isn't held.
func (s *Store) Miss(parent types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missLocked(types.UID(strings.Clone(string(parent))))
}

// Acknowledge subtracts n explained losses from a parent's count of missing
// children. The count never falls below zero.
func (s *Store) Acknowledge(parent types.UID, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledgeLocked(parent, n)
}

func (s *Store) missLocked(parent types.UID) {
	if _, held := s.mu.parents[parent]; held {
		s.mu.lost[parent]++
	}
}

func (s *Store) acknowledgeLocked(parent types.UID, n int) {
	if s.mu.lost[parent] <= n {
		delete(s.mu.lost, parent)
	} else {
		s.mu.lost[parent] -= n
	}
}
