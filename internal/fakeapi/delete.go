package fakeapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// preconditions are those of a delete.
type preconditions struct{ uid, version string }

func (s *Server) delete(req *http.Request, k *Kind, r Request) (*http.Response, error) {
	var opts metav1.DeleteOptions
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	var p preconditions
	if opts.Preconditions != nil && opts.Preconditions.UID != nil {
		p.uid = string(*opts.Preconditions.UID)
	}
	if opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil {
		p.version = *opts.Preconditions.ResourceVersion
	}
	s.mu.Lock()
	was, left, err := s.deleteLocked(k, r.Key, p, r.DryRun || len(opts.DryRun) > 0)
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case left != nil:
		return answer(req, http.StatusOK, left)
	}
	return answer(req, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: r.Key.Name, Group: k.groupResource().Group, Kind: k.Plural, UID: types.UID(text(metaOf(was), "uid"))},
	})
}

// deleteLocked returns what was, and what is left of it if it has finalizers.
func (s *Server) deleteLocked(k *Kind, key types.NamespacedName, p preconditions, dryRun bool) (was, left map[string]any, err error) {
	if was, err = s.getLocked(k, key); err != nil {
		return nil, nil, err
	}
	before := metaOf(was)
	if p.uid != "" && p.uid != text(before, "uid") || p.version != "" && p.version != text(before, "resourceVersion") {
		return nil, nil, apierrors.NewConflict(k.groupResource(), key.Name, errors.New("Precondition failed"))
	}
	if len(finalizers(before)) == 0 {
		if !dryRun {
			s.removeLocked(k, key, was)
		}
		return was, nil, nil
	}
	if before["deletionTimestamp"] != nil {
		return was, was, nil
	}
	left = maps.Clone(was)
	meta := maps.Clone(before)
	left["metadata"] = meta
	meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = now(), int64(0)
	if k.Generation {
		meta["generation"] = number(meta, "generation") + 1
	}
	if !dryRun {
		s.putLocked(k, key, was, left)
	}
	return was, left, nil
}
