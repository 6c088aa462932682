package store

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An etcd that is restored from a backup begins a new history: its resourceVersions go
// back, and name other states than before. The gate would discard every state of the
// new history as old. A list tells: a list that was asked for after a resourceVersion had
// been seen can't be older than that, nor show an object as it was before a state that
// the list ought to know, unless the history is a new one. Where the new history has
// caught up with all that is known of a type, only the watch of another type can tell.

// Position returns a resourceVersion that a consistent list for a stream can't be older
// than: the newest one that the stream has delivered, or that the API server has
// answered to a write of the type. "" if there is none.
func (s *Store) Position(of Stream) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, wrote := s.mu.streams[of], s.mu.wrote[of.Type]
	if Older(at, wrote) || at == "" {
		return wrote
	}
	return at
}

// ReplaceSince is Replace for a list that was asked for when the resourceVersion asked
// was known; "": none was. If the list is of a new history, ReplaceSince does what
// StartOver does.
func (s *Store) ReplaceSince(asked string, from Stream, list []*resource.Resource, listVersion string) (c Change, startedOver bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !Older(listVersion, asked) && !slices.ContainsFunc(list, func(res *resource.Resource) bool { return s.goesBackLocked(res, listVersion) }) {
		return s.replaceLocked(from, list, listVersion), false
	}
	return s.startOverLocked(from, list, listVersion), true
}

// goesBackLocked says whether a list shows a state that is older than the one held under
// that name, though the list was made after that.
func (s *Store) goesBackLocked(res *resource.Resource, listVersion string) bool {
	held := s.mu.objects[res.Type()][res.Key()]
	return held != nil && Older(res.ResourceVersion(), held.ResourceVersion()) && Older(held.ResourceVersion(), listVersion)
}

// StartOver puts the first list of a new history in the place of everything that is
// known of a stream's objects, also of what this process has written and deleted.
func (s *Store) StartOver(from Stream, list []*resource.Resource, listVersion string) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startOverLocked(from, list, listVersion)
}

func (s *Store) startOverLocked(from Stream, list []*resource.Resource, listVersion string) Change {
	s.mu.streams[from] = listVersion
	delete(s.mu.wrote, from.Type)
	all := s.forgetDeletesLocked(from)
	listed := make(map[types.UID]struct{}, len(list))
	for _, res := range list {
		listed[res.UID()] = struct{}{}
	}
	for key, held := range s.mu.objects[from.Type] {
		if _, ok := listed[held.UID()]; ok || !from.covers(key) {
			continue
		}
		ref := object.Ref{Type: from.Type, Key: key}
		all.add(s.removeLocked(ref, held))
		all.Woken = append(all.Woken, s.wakeLocked(ref)...)
	}
	for _, res := range list {
		ref := object.RefOf(res)
		all.add(s.enterLocked(ref, s.mu.objects[ref.Type][ref.Key], res))
	}
	return all
}

// forgetDeletesLocked forgets which objects of a stream this operator has deleted, and
// wakes the parents that wait for their end.
func (s *Store) forgetDeletesLocked(from Stream) (c Change) {
	for uid, stone := range s.mu.deleted[from.Type] {
		if from.covers(stone.key) {
			delete(s.mu.deleted[from.Type], uid)
			c.Woken = append(c.Woken, s.wakeLocked(object.Ref{Type: from.Type, Key: stone.key})...)
		}
	}
	for ref := range s.mu.floors {
		if ref.Type == from.Type && from.covers(ref.Key) {
			delete(s.mu.floors, ref)
		}
	}
	return c
}

// Older says whether resourceVersion a is older than b. It returns false for a pair that
// can't be ordered.
func Older(a, b string) bool {
	if b == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}
