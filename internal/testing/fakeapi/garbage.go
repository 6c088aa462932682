package fakeapi

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// CollectGarbage does once what the garbage collector does: objects whose
// owners are all gone, or waiting for them to go, are deleted, in the
// background; of the others, references to such owners are taken off. Who has
// waited for dependents, and has none left, is let go. It knows owners by their
// UIDs, and leaves alone what is being deleted. Its work may leave more to
// collect. It returns what it has deleted, as that was.
func (s *Server) CollectGarbage() (deleted []*resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lives, owns := map[string]bool{}, map[string]bool{} // UIDs
	s.eachLocked(func(_ *Kind, _ types.NamespacedName, object *stored) {
		lives[object.uid] = !object.awaitsDependents()
		for _, owner := range object.owners {
			owns[owner] = true
		}
	})
	s.eachLocked(func(k *Kind, key types.NamespacedName, object *stored) {
		if object.awaitsDependents() && !owns[object.uid] {
			tree := object.tree()
			held, _ := metaOf(tree)["finalizers"].([]any)
			metaOf(tree)["finalizers"] = slices.DeleteFunc(held, func(f any) bool { return f == metav1.FinalizerDeleteDependents })
			_, _ = s.storeLocked(k, key, tree, writeAll, &writing{by: somebody}) // it is there, and nothing else can be wrong
			return
		}
		if s.collectLocked(k, key, object, lives) {
			res, err := object.resource()
			if err == nil { // it was stored
				deleted = append(deleted, res)
			}
		}
	})
	return deleted
}

// eachLocked calls do for every object there is, which it may change.
func (s *Server) eachLocked(do func(k *Kind, key types.NamespacedName, object *stored)) {
	for _, k := range s.mu.kinds {
		for _, key := range slices.SortedFunc(maps.Keys(s.mu.objects[k]), compareKeys) {
			do(k, key, s.mu.objects[k][key])
		}
	}
}

func (s *stored) awaitsDependents() bool {
	if !s.deleting {
		return false
	}
	_, ok := finalizers(metaOf(s.tree()))[metav1.FinalizerDeleteDependents]
	return ok
}

// collectLocked says whether it has deleted the object.
func (s *Server) collectLocked(k *Kind, key types.NamespacedName, was *stored, lives map[string]bool) bool {
	if was.deleting || !slices.ContainsFunc(was.owners, func(uid string) bool { return !lives[uid] }) {
		return false
	}
	object := was.tree()
	refs, _ := metaOf(object)["ownerReferences"].([]any)
	left := slices.DeleteFunc(refs, func(ref any) bool {
		owner, _ := ref.(map[string]any)
		return !lives[text(owner, "uid")]
	})
	if len(left) == 0 {
		_, _, _ = s.deleteLocked(k, key, deletion{}) // it is there, and nothing else can be wrong
		return true
	}
	metaOf(object)["ownerReferences"] = left
	_, _ = s.storeLocked(k, key, object, writeAll, &writing{by: somebody})
	return false
}
