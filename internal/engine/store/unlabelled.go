package store

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An object whose controller is a parent, but which nobody has labelled, is delivered
// by no watch. The store holds no state of such an object, only its name, until it is
// a child. A child that came before its parent is noted here, too: see foreign.go.

// An Unlabelled is an object whose controller is a parent, and that carried no labels
// of an operator when it was last looked at.
type Unlabelled struct {
	Ref object.Ref
	UID types.UID
}

// NoteUnlabelled notes an unlabelled object under its controller, a parent that need
// not be held. It does nothing if the object is held as a child: it has been labelled
// since it was read.
func (s *Store) NoteUnlabelled(parent types.UID, res *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.RefOf(res)
	if held := s.mu.objects[ref.Type][ref.Key]; held != nil && held.UID() == res.UID() {
		if _, owned := s.ownerOf(held); owned {
			return
		}
	}
	s.noteUnlabelledLocked(parent, ref, res.UID())
}

// ReadLost says that a child that disappears may still be there: the watch delivers only those
// with one value of a label, which anybody may change. Such a child is noted, to be read.
func (s *Store) ReadLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.readLost = true
}

// noteUnlabelledLocked notes an object that is to be read when there is a pass over the
// parent. It returns the parent's UID, in a string of its own.
func (s *Store) noteUnlabelledLocked(parent types.UID, ref object.Ref, uid types.UID) types.UID {
	ref = ref.Detached()
	parent = types.UID(strings.Clone(string(parent)))
	if s.mu.unlabelled[parent] == nil {
		s.mu.unlabelled[parent] = map[object.Ref]types.UID{}
	}
	s.mu.unlabelled[parent][ref] = types.UID(strings.Clone(string(uid)))
	return parent
}

// Unlabelled returns the unlabelled objects of a parent, in the order of type,
// namespace and name. Of a namespaced parent, only objects in its own namespace count:
// owner references don't cross namespaces.
func (s *Store) Unlabelled(parent types.UID) []Unlabelled {
	s.mu.RLock()
	defer s.mu.RUnlock()
	key, held := s.mu.parents[parent]
	if !held {
		return nil
	}
	var out []Unlabelled
	for ref, uid := range s.mu.unlabelled[parent] {
		if key.Namespace == "" || ref.Key.Namespace == key.Namespace {
			out = append(out, Unlabelled{ref, uid})
		}
	}
	slices.SortFunc(out, func(a, b Unlabelled) int {
		return cmp.Or(strings.Compare(a.Ref.Type.String(), b.Ref.Type.String()), strings.Compare(a.Ref.Key.String(), b.Ref.Key.String()))
	})
	return out
}

// ForgetUnlabelled forgets an unlabelled object of a parent: it is gone, or is
// somebody else's by now.
func (s *Store) ForgetUnlabelled(parent types.UID, ref object.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetUnlabelledLocked(parent, ref)
}

// forgetNamesLocked forgets the unlabelled objects of a parent. What a watch delivers is
// noted for as long as it does: the parent may come back.
func (s *Store) forgetNamesLocked(parent types.UID) {
	for ref := range s.mu.unlabelled[parent] {
		if _, watched := s.mu.orphans[ref]; !watched {
			s.forgetUnlabelledLocked(parent, ref)
		}
	}
}

func (s *Store) forgetUnlabelledLocked(parent types.UID, ref object.Ref) {
	of := s.mu.unlabelled[parent]
	if of == nil {
		return
	}
	if delete(of, ref); len(of) == 0 {
		delete(s.mu.unlabelled, parent)
	}
}
