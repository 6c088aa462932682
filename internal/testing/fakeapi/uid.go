package fakeapi

import (
	"fmt"
	"hash/fnv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sameLocked refuses a patch of the UID: unlike an update with another one, it
// isn't taken for a precondition.
func (s *Server) sameLocked(k *Kind, key types.NamespacedName, meta map[string]any) error {
	was, err := s.getLocked(k, key)
	uid := text(meta, "uid")
	if err != nil || uid == was.uid || text(meta, "resourceVersion") != was.version {
		return err
	}
	return anotherUID(k, key, uid)
}

func anotherUID(k *Kind, key types.NamespacedName, uid string) error {
	return apierrors.NewInvalid(k.Type.GroupVersionKind().GroupKind(), key.Name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"),
	})
}

func (s *Server) newUIDLocked(k *Kind, key types.NamespacedName) string {
	if s.mu.lives == nil {
		s.mu.uids++
		return fmt.Sprintf("uid-%d", s.mu.uids)
	}
	id := k.Type.String() + " " + key.String()
	s.mu.lives[id]++
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, id, s.mu.lives[id])
	return fmt.Sprintf("uid-%d", h.Sum64())
}
