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
	was := s.mu.objects[k][key].tree()
	refs, _ := metaOf(was)["ownerReferences"].([]any)
	if len(refs) == 0 || metaOf(was)["deletionTimestamp"] != nil {
		return
	}
	var left []any
	for _, ref := range refs {
		owner, _ := ref.(map[string]any)
		if _, ok := there[text(owner, "uid")]; ok {
			left = append(left, ref)
		}
	}
	switch len(left) {
	case len(refs):
	case 0:
		_, _, _ = s.deleteLocked(k, key, preconditions{}, false) // it is there, and nothing else can be wrong
	default:
		metaOf(was)["ownerReferences"] = left
		_, _ = s.storeLocked(k, key, was, writeAll, false)
	}
}
