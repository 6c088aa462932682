package store

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A heldFields says which fields of a child the operator owns, by the managedFields
// of the state at a resourceVersion. Children have it from the first list until
// their first pass, or until they change.
type heldFields struct {
	parent  types.UID
	version string
	entries []string // fieldsV1, of each entry
}

// HoldFields notes which fields of a child the operator owns in this state: the
// fieldsV1 of each of its entries in managedFields. It does nothing unless this is
// the state held. The strings must be their own.
func (s *Store) HoldFields(res *resource.Resource, entries []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.mu.objects[res.Type()][res.Key()]
	parent, owned := s.ownerOf(res)
	if !owned || held == nil || s.isKey(held) || held.UID() != res.UID() || held.ResourceVersion() != res.ResourceVersion() {
		return
	}
	if s.mu.fields == nil {
		s.mu.fields = map[types.UID]heldFields{}
	}
	s.mu.fields[res.UID()] = heldFields{parent: types.UID(strings.Clone(string(parent))), version: res.ResourceVersion(), entries: entries}
}

// HeldFields returns what HoldFields has noted of a child in this state. It returns
// nothing if that is forgotten.
func (s *Store) HeldFields(res *resource.Resource) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f, ok := s.mu.fields[res.UID()]; ok && f.version == res.ResourceVersion() {
		return f.entries
	}
	return nil
}

// ForgetFields forgets what HoldFields has noted of these children.
func (s *Store) ForgetFields(children []*resource.Resource) {
	s.mu.RLock()
	none := s.mu.fields == nil
	s.mu.RUnlock()
	if none {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, child := range children {
		delete(s.mu.fields, child.UID())
	}
	s.tidyFieldsLocked()
}

// ForgetAllFields forgets what HoldFields has noted of any child.
func (s *Store) ForgetAllFields() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fields = nil
}

// forgetFieldsOfLocked forgets what HoldFields has noted of the children of a parent.
func (s *Store) forgetFieldsOfLocked(parent types.UID) {
	if family := s.mu.children[parent]; family != nil && s.mu.fields != nil {
		for _, child := range family.list {
			delete(s.mu.fields, child.UID())
		}
		s.tidyFieldsLocked()
	}
}

// tidyFieldsLocked drops the map once it is empty: a map never shrinks.
func (s *Store) tidyFieldsLocked() {
	if len(s.mu.fields) == 0 {
		s.mu.fields = nil
	}
}
