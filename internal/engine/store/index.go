package store

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// siblings are the children of one parent. They are kept in a sorted slice: a
// map of them would take more memory than most of the objects.
type siblings struct {
	uid  types.UID            // the parent's, in a string of its own
	list []*resource.Resource // in the order of type, namespace and name
}

// find returns the index of the child with the type, namespace and name of res.
// If there is no such child, it returns the index at which res belongs, and
// false.
func (f *siblings) find(res *resource.Resource) (int, bool) {
	return slices.BinarySearchFunc(f.list, res, object.Compare)
}

// indexLocked makes res one of its owner's children. It replaces the child with
// the same type, namespace and name.
func (s *Store) indexLocked(owner types.UID, res *resource.Resource) *siblings {
	family := s.mu.children[owner]
	if family == nil {
		// The string owner is a part of the child's JSON. The key outlives that
		// JSON, and must not keep it in memory.
		family = &siblings{uid: types.UID(strings.Clone(string(owner)))}
		s.mu.children[family.uid] = family
	}
	i, found := family.find(res)
	if found {
		family.list[i] = res
	} else {
		family.list = slices.Insert(family.list, i, res)
	}
	return family
}

// unindexLocked removes a child from its owner's children. It returns the
// owner's UID, in a string that isn't a part of the child's JSON if the owner
// has children.
func (s *Store) unindexLocked(owner types.UID, child *resource.Resource) types.UID {
	family := s.mu.children[owner]
	if family == nil {
		return owner
	}
	if i, found := family.find(child); found {
		family.list = slices.Delete(family.list, i, i+1)
	}
	if len(family.list) == 0 {
		delete(s.mu.children, owner)
	}
	return family.uid
}

// OwnerOf returns the UID of the parent whose child an object is, false if it is no child.
func (s *Store) OwnerOf(res *resource.Resource) (types.UID, bool) {
	owner, owned := s.ownerOf(res)
	s.mu.RLock()
	defer s.mu.RUnlock()
	parent, held := s.mu.parents[owner]
	if !owned || held && parent.Namespace != "" && parent.Namespace != res.Namespace() {
		return "", false
	}
	return owner, true
}

// ownerOf returns the UID of the parent whose child an object is: the object's
// tracking label has that UID as its value, and the object's controller is of the parents'
// type and has that UID. The label alone isn't enough: people copy manifests, and
// EndpointSlices copy the labels of their Service.
func (s *Store) ownerOf(res *resource.Resource) (types.UID, bool) {
	if res.Type() == s.parentType {
		return "", false
	}
	label, ok := res.Label(s.trackingLabel)
	if !ok || label == "" {
		return "", false
	}
	uid := types.UID(label)
	if !res.IsControlledBy(s.parentKind, uid) {
		return "", false
	}
	return uid, true
}
