package store

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Observe stores a state that a watch delivered, unless a newer one is held or
// the object is known to be gone.
func (s *Store) Observe(from Stream, res *resource.Resource) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outdatedLocked(from, res, res.ResourceVersion()) {
		return Change{}
	}
	s.advanceLocked(from, res.ResourceVersion())
	return s.setAndWakeLocked(res)
}

// ObserveDeleted removes an object that a watch reported as gone, or as no
// longer selected. res is the object's last state, as the watch delivered it.
func (s *Store) ObserveDeleted(from Stream, res *resource.Resource) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceLocked(from, res.ResourceVersion())
	ref := object.RefOf(res)
	s.confirmLocked(ref, res.UID())
	held := s.mu.objects[ref.Type][ref.Key]
	if held == nil {
		return Change{Woken: s.wakeLocked(ref)}
	}
	if held.UID() != res.UID() || newer(held.ResourceVersion(), res.ResourceVersion()) {
		return Change{}
	}
	c := s.holdBackLocked(s.removeLocked(ref, held), ref, res.UID(), res.ResourceVersion())
	c.Woken = s.wakeLocked(ref)
	if _, ok := s.mu.departed[res.UID()]; ok {
		s.mu.departed[res.UID()] = departed{res, true}
	}
	return c
}

// Replace stores a complete list of the objects of a stream, made at the
// resourceVersion listVersion. Objects that the list lacks are removed, except
// those that this process has written after the list was made.
func (s *Store) Replace(from Stream, list []*resource.Resource, listVersion string) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all Change
	listed := make(map[types.UID]struct{}, len(list))
	for _, res := range list {
		listed[res.UID()] = struct{}{}
		if s.outdatedLocked(from, res, listVersion) {
			continue
		}
		all.add(s.setAndWakeLocked(res))
	}
	s.advanceLocked(from, listVersion)
	if from.Type != s.parentType && newer(listVersion, s.mu.childrenAsOf) {
		s.mu.childrenAsOf = listVersion
	}
	for key, held := range s.mu.objects[from.Type] {
		if _, ok := listed[held.UID()]; ok || !from.covers(key) || newer(held.ResourceVersion(), listVersion) {
			continue
		}
		ref := object.Ref{Type: from.Type, Key: key}
		all.add(s.holdBackLocked(s.removeLocked(ref, held), ref, held.UID(), listVersion))
		all.Woken = append(all.Woken, s.wakeLocked(ref)...)
	}
	for uid, stone := range s.mu.deleted[from.Type] {
		if _, ok := listed[uid]; !ok && from.covers(stone.key) && !newer(stone.version, listVersion) {
			ref := object.Ref{Type: from.Type, Key: stone.key}
			s.confirmLocked(ref, uid)
			all.Woken = append(all.Woken, s.wakeLocked(ref)...)
		}
	}
	return all
}

// Drop removes all objects of a type of children: the API server doesn't serve it any more.
// Whether this operator's deletes have been carried out is no question any more.
func (s *Store) Drop(t resource.Type) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.forgetDeletesLocked(t)
	for key, held := range s.mu.objects[t] {
		ref := object.Ref{Type: t, Key: key}
		all.add(s.removeLocked(ref, held))
	}
	for ref := range s.mu.waiting {
		if ref.Type == t {
			all.Woken = append(all.Woken, s.wakeLocked(ref)...)
		}
	}
	return all
}

// Bookmark notes the resourceVersion up to which a watch has delivered every
// event.
func (s *Store) Bookmark(from Stream, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceLocked(from, version)
}

// advanceLocked notes the newest resourceVersion that a watch has delivered.
func (s *Store) advanceLocked(from Stream, version string) {
	if newer(version, s.mu.streams[from]) {
		s.mu.streams[from] = version
	}
}

// outdatedLocked says whether a watch reports, at a version, an object that has
// gone since: the object isn't held, though the stream has already come further.
// That happens after a list has overtaken the watch.
func (s *Store) outdatedLocked(from Stream, res *resource.Resource, version string) bool {
	return s.mu.objects[from.Type][res.Key()] == nil && s.mu.streams[from] != "" && newer(s.mu.streams[from], version)
}

// passedLocked says whether the watch that covers an object has come as far as
// version. It returns false if no watch covers the object.
func (s *Store) passedLocked(ref object.Ref, version string) bool {
	for _, ns := range []string{"", ref.Key.Namespace} {
		if at, ok := s.mu.streams[Stream{Type: ref.Type, Namespace: ns}]; ok {
			return !newer(version, at)
		}
	}
	return false
}

// setAndWakeLocked is setLocked that also finds out whether someone has edited a
// parent. If the object has changed its owner, or has taken the name of another object,
// it wakes the parents that wait for an end.
func (s *Store) setAndWakeLocked(res *resource.Resource) Change {
	res, owner := s.admitLocked(res)
	ref := object.RefOf(res)
	waited := len(s.mu.waiting[ref]) > 0
	var before types.UID
	held := s.mu.objects[ref.Type][ref.Key]
	if waited && held != nil {
		before = s.heldOwnerLocked(ref, held)
	}
	c := s.setLocked(res, owner)
	if ref.Type == s.parentType && len(c.Parents) > 0 && held != nil && held.UID() == res.UID() && isEdit(held, res) {
		c.Edited, c.Parents = append(c.Edited, c.Parents...), nil
	}
	c = s.holdBackLocked(c, ref, res.UID(), res.ResourceVersion())
	if !waited || s.mu.objects[ref.Type][ref.Key] != res {
		return c
	}
	if held == nil || held.UID() != res.UID() || owner != before {
		c.Woken = append(c.Woken, s.wakeLocked(ref)...)
	}
	return c
}

// isEdit says whether someone has edited or deleted a parent between two of its
// states, of which the watch has delivered the second. What else may change is its
// status, and metadata such as its finalizers. Of a type without generations every
// change counts.
func isEdit(before, after *resource.Resource) bool {
	return before.Generation() != after.Generation() || after.Generation() == 0 ||
		before.IsDeleting() != after.IsDeleting() ||
		!maps.Equal(before.Labels(), after.Labels()) || !maps.Equal(before.Annotations(), after.Annotations())
}
