package store

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Parent returns the parent with this UID, false if it isn't held.
func (s *Store) Parent(uid types.UID) (*resource.Resource, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	key, ok := s.mu.parents[uid]
	if !ok {
		return nil, false
	}
	return s.mu.objects[s.parentType][key], true
}

// AllParents returns the UIDs of all parents held, in no particular order.
func (s *Store) AllParents() []types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	uids := make([]types.UID, 0, len(s.mu.parents))
	for uid := range s.mu.parents {
		uids = append(uids, uid)
	}
	return uids
}

// ParentNamespaces returns the namespaces of all parents held.
func (s *Store) ParentNamespaces() map[string]struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	namespaces := map[string]struct{}{}
	for _, key := range s.mu.parents {
		namespaces[key.Namespace] = struct{}{}
	}
	return namespaces
}

// Family returns a parent with all of its children, in the order of type,
// namespace and name; a nil parent if it isn't held. A namespaced parent has
// children in its own namespace only, since owner references don't cross
// namespaces: whoever may write in another namespace can't forge a child.
func (s *Store) Family(uid types.UID) (parent *resource.Resource, children []*resource.Resource) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	key, ok := s.mu.parents[uid]
	if !ok {
		return nil, nil
	}
	parent = s.mu.objects[s.parentType][key]
	family := s.mu.children[uid]
	if family == nil {
		return parent, nil
	}
	children = make([]*resource.Resource, 0, len(family.list))
	for _, child := range family.list {
		if parent.Namespace() == "" || child.Namespace() == parent.Namespace() {
			children = append(children, child)
		}
	}
	return parent, children
}

// Owners returns the UIDs of the parents that have children of a type, each once,
// in no particular order.
func (s *Store) Owners(t resource.Type) []types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seen := map[types.UID]struct{}{}
	var uids []types.UID
	for _, res := range s.mu.objects[t] {
		uid, ok := s.ownerOf(res)
		if _, known := seen[uid]; ok && !known {
			seen[uid] = struct{}{}
			uids = append(uids, uid)
		}
	}
	return uids
}

// Object returns the state held of an object, false if there is none. The object
// need not be a child.
func (s *Store) Object(ref object.Ref) (*resource.Resource, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	res, ok := s.mu.objects[ref.Type][ref.Key]
	return res, ok
}

// Usage returns how many objects of a type are held, and how many bytes their
// JSON has.
func (s *Store) Usage(t resource.Type) (objects, bytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.mu.objects[t]), s.mu.bytes[t]
}

// Sizes adds the number of entries of each map to out, under the map's name.
func (s *Store) Sizes(out map[string]int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for t, objects := range s.mu.objects {
		out["objects "+t.String()] = len(objects)
	}
	for t, tombstones := range s.mu.deleted {
		out["tombstones "+t.String()] = len(tombstones)
	}
	out["parents by UID"] = len(s.mu.parents)
	out["children by parent"] = len(s.mu.children)
	out["floors"] = len(s.mu.floors)
	out["waiting"] = len(s.mu.waiting)
	out["awaited by parent"] = len(s.mu.awaited)
	out["own deletes"] = len(s.mu.deleting)
	out["open writes"] = len(s.mu.open)
	out["missing children by parent"] = len(s.mu.lost)
	out["undeleted"] = len(s.mu.undeleted)
	out["departed"] = len(s.mu.departed)
	out["unlabelled"] = len(s.mu.unlabelled)
	out["orphans"] = len(s.mu.orphans)
	out["held fields"] = len(s.mu.fields)
}
