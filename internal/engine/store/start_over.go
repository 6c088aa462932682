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
// new history as old. A list tells, in one of two ways:
//   - A list that was asked for after a resourceVersion had been seen can't be older than
//     that, unless the history is a new one.
//   - A list that is as new as the state held under a name can't have an older state under
//     that name, unless the history is a new one. So it shows even after the new history
//     has overtaken the old one.

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
// was known; "": none was. If the list is of a new history, or the caller knows that
// there is one (anew), every state of the stream's objects is forgotten, also what this
// process has written and deleted, and the list takes its place. proven says whether the
// list itself tells of a new history.
func (s *Store) ReplaceSince(asked string, from Stream, list []*resource.Resource, listVersion string, anew bool) (c Change, proven bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proven = Older(listVersion, asked) || s.contradictsLocked(from, list, listVersion)
	if !proven && !anew {
		return s.replaceLocked(from, list, listVersion), false
	}
	s.mu.streams[from] = listVersion
	delete(s.mu.wrote, from.Type)
	if from.Type != s.parentType {
		s.mu.childrenAsOf = listVersion
	}
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
		res, owner := s.admitLocked(res)
		ref := object.RefOf(res)
		all.add(s.enterLocked(ref, s.mu.objects[ref.Type][ref.Key], res, owner))
	}
	return all, proven
}

// contradictsLocked says whether a list has a state that is older than the one held under
// its name, though the list is as new as that, or another one of the same resourceVersion.
func (s *Store) contradictsLocked(from Stream, list []*resource.Resource, listVersion string) bool {
	return slices.ContainsFunc(list, func(res *resource.Resource) bool {
		held := s.mu.objects[from.Type][res.Key()]
		return held != nil && Contradicts(held, res, listVersion, s.isKey(held) || s.isKey(res))
	})
}

// Contradicts says whether a state that a list has can't be of the history of the one held
// under its name: it is older, though the list is as new as the one held, or it is another
// state of the same resourceVersion. keys says that the key alone is known of one of both.
func Contradicts(held, listed *resource.Resource, listVersion string, keys bool) bool {
	switch {
	case listed.ResourceVersion() == held.ResourceVersion() && keys:
		return listed.UID() != held.UID()
	case listed.ResourceVersion() == held.ResourceVersion():
		return listed.UID() != held.UID() || listed.Generation() != held.Generation() || listed.IsDeleting() != held.IsDeleting()
	}
	return Older(listed.ResourceVersion(), held.ResourceVersion()) && !newer(held.ResourceVersion(), listVersion)
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
