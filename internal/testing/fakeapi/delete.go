package fakeapi

import (
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deletion says how to delete.
type deletion struct {
	uid, version string // preconditions, unless empty
	// foreground: the object stays until its dependents are gone.
	foreground, dryRun bool
}

func (s *Server) delete(req *http.Request, k *Kind, r Request) (*http.Response, error) {
	var opts metav1.DeleteOptions
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	d := deletion{
		foreground: opts.PropagationPolicy != nil && *opts.PropagationPolicy == metav1.DeletePropagationForeground,
		dryRun:     r.DryRun || len(opts.DryRun) > 0,
	}
	if opts.Preconditions != nil && opts.Preconditions.UID != nil {
		d.uid = string(*opts.Preconditions.UID)
	}
	if opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil {
		d.version = *opts.Preconditions.ResourceVersion
	}
	s.mu.Lock()
	was, left, err := s.deleteLocked(k, r.Key, d)
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case left != nil:
		return respond(req, http.StatusOK, left.raw), nil
	}
	return answer(req, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: r.Key.Name, Group: k.groupResource().Group, Kind: k.Plural, UID: types.UID(was.uid)},
	})
}

// deleteLocked returns what was, and what is left of it if it has finalizers.
func (s *Server) deleteLocked(k *Kind, key types.NamespacedName, d deletion) (was, left *stored, err error) {
	if was, err = s.getLocked(k, key); err != nil {
		return nil, nil, err
	}
	if d.uid != "" && d.uid != was.uid || d.version != "" && d.version != was.version {
		return nil, nil, apierrors.NewConflict(k.groupResource(), key.Name, errors.New("Precondition failed"))
	}
	object := was.tree()
	meta := metaOf(object)
	if d.foreground && !was.deleting {
		held, _ := meta["finalizers"].([]any)
		meta["finalizers"] = append(held, metav1.FinalizerDeleteDependents)
	}
	if len(finalizers(meta)) == 0 {
		if !d.dryRun {
			s.removeLocked(k, key, object)
		}
		return was, nil, nil
	}
	if meta["deletionTimestamp"] != nil {
		return was, was, nil
	}
	meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = now(), int64(0)
	if k.Generation {
		meta["generation"] = number(meta, "generation") + 1
	}
	return was, s.putLocked(k, key, object, d.dryRun), nil
}
