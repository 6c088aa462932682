package fakeapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// Withdraw does what the removal of a CustomResourceDefinition does: all objects of the type
// are deleted, whatever finalizers they have, watches of the type end when they have told of
// that (at once while they are held: see Hold), and the type isn't served until Serve.
func (s *Server) Withdraw(t resource.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, objects := range s.mu.objects {
		if k.Type != t {
			continue
		}
		for _, key := range slices.SortedFunc(maps.Keys(objects), compareKeys) {
			s.removeLocked(k, key, objects[key].tree())
		}
	}
	s.mu.withdrawn[t] = true
	s.wake.all()
}

// Serve serves a type again. One that New was given may be served otherwise than before.
func (s *Server) Serve(as Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range s.mu.kinds {
		if k.Type == as.Type {
			delete(s.mu.objects, k)
			s.mu.kinds[i], s.mu.objects[&as] = &as, map[types.NamespacedName]*stored{}
		}
	}
	delete(s.mu.withdrawn, as.Type)
}

// Hide has the discovery not tell of a type that is served, as an API server does that has just
// started.
func (s *Server) Hide(t resource.Type, hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.hidden[t] = hidden
}

// shown returns the kinds that the discovery tells of.
func (s *Server) shown() []*Kind {
	kinds := s.served()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(kinds, func(k *Kind) bool { return s.mu.hidden[k.Type] })
}

// served returns the kinds that are served.
func (s *Server) served() []*Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.mu.kinds), func(k *Kind) bool { return s.mu.withdrawn[k.Type] })
}
