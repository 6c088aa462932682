package store

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Whoever may write objects of a watched type may give them the operator's labels. Of an
// object that isn't a child of a parent that is held, the store holds the key alone: its
// name, its UID and its resourceVersion, without which no later state could be told from
// an earlier one. So a flood of such objects costs nothing that grows with their size.

// keyOnly returns a Resource with the key, the UID and the resourceVersion of an object, and
// nothing else.
func keyOnly(res *resource.Resource) *resource.Resource {
	t := res.Type()
	raw, err := json.Marshal(metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: t.APIVersion, Kind: t.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: res.Namespace(), Name: res.Name(), UID: res.UID(), ResourceVersion: res.ResourceVersion()},
	})
	if err != nil {
		return res // can't be: strings have JSON
	}
	key, err := resource.New(raw)
	if err != nil {
		return res // can't be: it has all that a Resource must have
	}
	return key
}

// isKey says whether no more than the key of an object is held. Every child has the
// tracking label.
func (s *Store) isKey(held *resource.Resource) bool {
	_, labelled := held.Label(s.trackingLabel)
	return !labelled && held.Type() != s.parentType
}

// completes says whether the key alone is held of an object of which res is the same state,
// whole.
func (s *Store) completes(held, res *resource.Resource) bool {
	return s.isKey(held) && !s.isKey(res) && held.UID() == res.UID() && held.ResourceVersion() == res.ResourceVersion()
}

// Shorten returns an object as it is if it is a parent, or looks like the child of one.
// Otherwise it returns the key alone, which is all that the store would hold.
func (s *Store) Shorten(res *resource.Resource) *resource.Resource {
	if _, owned := s.ownerOf(res); owned || res.Type() == s.parentType {
		return res
	}
	return keyOnly(res)
}

// HoldChildrenOnly says that the parents have been listed. From now on, the store holds
// the key alone of an object whose parent isn't held.
func (s *Store) HoldChildrenOnly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.childrenOnly = true
	for _, objects := range s.mu.objects {
		for _, res := range objects {
			if was, owned := s.ownerOf(res); s.shortenLocked(res) && owned {
				s.unindexLocked(was, res)
			}
		}
	}
	s.tidyFieldsLocked()
}

// shortenLocked holds the key alone of an object that is held, if admitLocked says so. It
// says whether it does.
func (s *Store) shortenLocked(held *resource.Resource) bool {
	admitted, owner := s.admitLocked(held)
	if admitted == held {
		return false
	}
	ref := object.RefOf(admitted)
	s.mu.objects[ref.Type][ref.Key] = admitted
	s.mu.bytes[ref.Type] += admitted.Size() - held.Size()
	delete(s.mu.fields, held.UID())
	s.noteOrphanLocked(admitted, owner)
	return true
}

// shortenChildrenLocked holds the keys alone of the children of a parent that isn't held any
// more.
func (s *Store) shortenChildrenLocked(parent types.UID) {
	family := s.mu.children[parent]
	if family == nil || !s.mu.childrenOnly {
		return
	}
	delete(s.mu.children, parent)
	for _, child := range family.list {
		s.shortenLocked(child)
	}
}

// admitLocked returns what is to be held of a state of an object: all of it, or the key
// alone. owner is the UID of the object's parent, "" if it has none, or none that could
// be its parent. It need not be held.
func (s *Store) admitLocked(res *resource.Resource) (admitted *resource.Resource, owner types.UID) {
	if res.Type() == s.parentType || s.isKey(res) {
		return res, ""
	}
	owner, owned := s.ownerOf(res)
	if !owned {
		return keyOnly(res), ""
	}
	if !s.mu.childrenOnly {
		return res, owner
	}
	switch parent, held := s.mu.parents[owner]; {
	case !held:
		return keyOnly(res), owner
	case parent.Namespace != "" && parent.Namespace != res.Namespace(): // owner references don't cross namespaces
		return keyOnly(res), ""
	}
	return res, owner
}

// heldOwnerLocked returns the UID of the parent of an object that is held, whole or by its
// key; "" if it has none.
func (s *Store) heldOwnerLocked(ref object.Ref, held *resource.Resource) types.UID {
	if owner, ok := s.mu.orphans[ref]; ok {
		return owner
	}
	owner, _ := s.ownerOf(held)
	return owner
}

// noteOrphanLocked notes an object of which the key alone is held, since its parent isn't
// held. When the parent comes, the object is read: see Unlabelled. It does nothing if there
// is no parent to come.
func (s *Store) noteOrphanLocked(key *resource.Resource, parent types.UID) {
	if parent == "" {
		return
	}
	ref := object.RefOf(key)
	s.mu.orphans[ref] = s.noteUnlabelledLocked(parent, ref, key.UID())
}

// forgetOrphanLocked forgets what noteOrphanLocked has noted of an object.
func (s *Store) forgetOrphanLocked(ref object.Ref) {
	if parent, ok := s.mu.orphans[ref]; ok {
		delete(s.mu.orphans, ref)
		s.forgetUnlabelledLocked(parent, ref)
	}
}
