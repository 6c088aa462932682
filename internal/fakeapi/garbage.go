package fakeapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// CollectGarbage does once what the garbage collector does: objects whose
// owners are all gone are deleted, in the background; of the others, references
// to owners that are gone are taken off. It knows owners by their UIDs, and
// leaves alone what is being deleted. Its work may leave more to collect.
func (s *Server) CollectGarbage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]struct{}{}
	for _, objects := range s.mu.objects {
		for _, object := range objects {
			there[object.uid] = struct{}{}
		}
	}
	for _, k := range s.kinds {
		for _, key := range slices.SortedFunc(maps.Keys(s.mu.objects[k]), compareKeys) {
			s.collectLocked(k, key, there)
		}
	}
}

func (s *Server) collectLocked(k *Kind, key types.NamespacedName, there map[string]struct{}) {
	was := s.mu.objects[k][key]
	gone := func(uid string) bool {
		_, ok := there[uid]
		return !ok
	}
	if was.deleting || !slices.ContainsFunc(was.owners, gone) {
		return
	}
	object := was.tree()
	refs, _ := metaOf(object)["ownerReferences"].([]any)
	left := slices.DeleteFunc(refs, func(ref any) bool {
		owner, _ := ref.(map[string]any)
		return gone(text(owner, "uid"))
	})
	if len(left) == 0 {
		_, _, _ = s.deleteLocked(k, key, preconditions{}, false) // it is there, and nothing else can be wrong
		return
	}
	metaOf(object)["ownerReferences"] = left
	_, _ = s.storeLocked(k, key, object, writeAll, false)
}
