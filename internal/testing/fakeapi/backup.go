package fakeapi

import (
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backup returns a function that restores the server to what it is now, as etcd is
// restored from a backup: objects and resourceVersions go back, and every watch ends.
// UIDs don't repeat.
func (s *Server) Backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, kept := s.mu.version, copied(s.mu.objects)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.version, s.mu.objects = version, copied(kept)
		s.mu.compacted = min(s.mu.compacted, version)
		s.mu.log = slices.DeleteFunc(s.mu.log, func(e event) bool { return e.version > version })
		clear(s.mu.pages)
		s.mu.tokens = nil
		s.mu.epoch++
		s.wake.all()
	}
}

// Skip advances the resourceVersion by n, as changes of objects do that nobody watches.
func (s *Server) Skip(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.version += n
}

// copied returns a map of its own for each kind. What is stored never changes.
func copied[K, L comparable, V any](of map[K]map[L]V) map[K]map[L]V {
	out := make(map[K]map[L]V, len(of))
	for k, objects := range of {
		out[k] = maps.Clone(objects)
	}
	return out
}

// futureLocked says whether the server hasn't got to a resourceVersion yet.
func (s *Server) futureLocked(version string) bool {
	at, err := strconv.ParseInt(version, 10, 64)
	return err == nil && at > s.mu.version
}

// tooLarge returns the error about a list that must not be older than a
// resourceVersion which the server hasn't got to.
func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}
