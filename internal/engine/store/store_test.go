package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func testRef(typ resource.Type, name string) object.Ref {
	return object.Ref{Type: typ, Key: types.NamespacedName{Namespace: "ns", Name: name}}
}

func TestStoreGate(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	cm := func(t *testing.T, uid string, version int, owner string) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, "c", uid, version, owner)
	}
	for name, tc := range map[string]struct {
		reason  string
		do      func(t *testing.T, s *Store)
		version string // of the ConfigMap held in the end; "": none is held
		uid     types.UID
	}{
		"late event of what a list lacks": {
			reason: "a list that overtook the watch told that it has gone; the watch, or an older list, doesn't bring it back",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 9, "p"))
				require.Len(t, s.Replace(all, nil, "12").Parents, 1)
				require.Empty(t, s.Observe(all, cm(t, "u", 10, "p")).Parents)
				require.Empty(t, s.Replace(all, []*resource.Resource{cm(t, "u", 10, "p")}, "11").Parents)
				require.Empty(t, s.ObserveDeleted(all, cm(t, "u", 12, "p")).Parents)
			},
		},
		"late event": {
			reason: "an event from before our write never takes it back",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "u", 10, "p"))
				require.Empty(t, s.Observe(all, cm(t, "u", 9, "p")).Parents)
			},
			version: "10", uid: "u",
		},
		"echo": {
			reason: "the echo of our own write concerns nobody",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "u", 10, "p"))
				require.Equal(t, Change{}, s.Observe(all, cm(t, "u", 10, "p")))
			},
			version: "10", uid: "u",
		},
		"late answer": {
			reason: "the answer to a write that the watch has overtaken is old",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 12, "p"))
				s.Read(cm(t, "u", 10, "p"))
			},
			version: "12", uid: "u",
		},
		"answer after the end": {
			reason: "an object that the watch has seen come and go isn't brought back by the answer to its create",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				require.Equal(t, []types.UID{"p"}, s.ObserveDeleted(all, cm(t, "u", 11, "p")).Parents)
				s.Read(cm(t, "u", 10, "p"))
			},
		},
		"answer after a list without it": {
			reason: "a list that is newer than the create and lacks the object says that it is gone",
			do: func(t *testing.T, s *Store) {
				s.Replace(all, nil, "11")
				s.Read(cm(t, "u", 10, "p"))
			},
		},
		"answer newer than the list": {
			reason: "a list from before the create says nothing about it",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "u", 10, "p"))
				require.Empty(t, s.Replace(all, nil, "9").Parents)
			},
			version: "10", uid: "u",
		},
		"relist finds a deletion": {
			reason: "what a newer list lacks was deleted while there was no watch",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				require.Equal(t, []types.UID{"p"}, s.Replace(all, nil, "20").Parents)
			},
		},
		"relist of another namespace": {
			reason: "a list of one namespace says nothing of the others",
			do: func(t *testing.T, s *Store) {
				s.Observe(Stream{Type: k8s.ConfigMap, Namespace: "ns"}, cm(t, "u", 10, "p"))
				s.Replace(Stream{Type: k8s.ConfigMap, Namespace: "elsewhere"}, nil, "20")
			},
			version: "10", uid: "u",
		},
		"relist with an older state": {
			reason: "a list never takes our write back",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "u", 10, "p"))
				s.Replace(all, []*resource.Resource{cm(t, "u", 9, "p")}, "9")
			},
			version: "10", uid: "u",
		},
		"deletion of another object of the name": {
			reason: "an object of the same name has taken its place since",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "v", 10, "p"))
				require.Equal(t, Change{}, s.ObserveDeleted(all, cm(t, "u", 20, "p")))
			},
			version: "10", uid: "v",
		},
		"deletion from before an own write": {
			reason: "the object has left the selector and come back, as our write tells",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "u", 10, "p"))
				require.Equal(t, Change{}, s.ObserveDeleted(all, cm(t, "u", 9, "p")))
			},
			version: "10", uid: "u",
		},
		"own delete": {
			reason: "what we deleted is gone at once, and events on their way don't bring it back",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				deletes(s, cm(t, "u", 10, "p"), nil)
				require.Equal(t, Change{}, s.Observe(all, cm(t, "u", 11, "p")))
				s.Replace(all, []*resource.Resource{cm(t, "u", 11, "p")}, "11")
			},
		},
		"own delete confirmed": {
			reason: "once the watch has confirmed the deletion the name may be taken again",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				deletes(s, cm(t, "u", 10, "p"), nil)
				s.ObserveDeleted(all, cm(t, "u", 12, "p"))
				require.Empty(t, s.mu.deleted[k8s.ConfigMap])
				s.Observe(all, cm(t, "v", 13, "p"))
			},
			version: "13", uid: "v",
		},
		"own delete confirmed by a list": {
			reason: "a list without the object confirms as well",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				deletes(s, cm(t, "u", 10, "p"), nil)
				s.Replace(all, nil, "12")
				require.Empty(t, s.mu.deleted[k8s.ConfigMap])
			},
		},
		"own delete, then a list of another namespace": {
			reason: "a list of one namespace says nothing of the others: events of the object are still on their way",
			do: func(t *testing.T, s *Store) {
				s.Observe(Stream{Type: k8s.ConfigMap, Namespace: "ns"}, cm(t, "u", 10, "p"))
				deletes(s, cm(t, "u", 10, "p"), nil)
				s.Replace(Stream{Type: k8s.ConfigMap, Namespace: "elsewhere"}, nil, "20")
				require.Equal(t, Change{}, s.Observe(Stream{Type: k8s.ConfigMap, Namespace: "ns"}, cm(t, "u", 11, "p")))
			},
		},
		"own delete, then a list from before the create": {
			reason: "a list older than the object says nothing about its end: its events are still on their way",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "u", 10, "p"))
				deletes(s, cm(t, "u", 10, "p"), nil)
				s.Replace(all, nil, "9")
				require.Equal(t, Change{}, s.Observe(all, cm(t, "u", 10, "p")))
			},
		},
		"own delete with something left": {
			reason: "an object that is being deleted is held until it is gone",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				deletes(s, cm(t, "u", 10, "p"), cm(t, "u", 11, "p"))
			},
			version: "11", uid: "u",
		},
		"own delete overtaken": {
			reason: "the answer to a delete doesn't take away what came after the object",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "v", 15, "p"))
				deletes(s, cm(t, "u", 10, "p"), nil)
			},
			version: "15", uid: "v",
		},
		"deletion of a predecessor": {
			reason: "the end of one object isn't the end of the next under its name",
			do: func(t *testing.T, s *Store) {
				s.Read(cm(t, "v", 12, "p"))
				require.Equal(t, Change{}, s.ObserveDeleted(all, cm(t, "u", 11, "p")))
			},
			version: "12", uid: "v",
		},
		"recreated": {
			reason: "another UID under the same name replaces what was there",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				require.ElementsMatch(t, []types.UID{"p", "q"}, s.Observe(all, cm(t, "v", 12, "q")).Parents)
				_, family := s.Family("p")
				require.Empty(t, family)
			},
			version: "12", uid: "v",
		},
		"changes hands": {
			reason: "a child that changes hands concerns both parents",
			do: func(t *testing.T, s *Store) {
				s.Observe(all, cm(t, "u", 10, "p"))
				require.ElementsMatch(t, []types.UID{"p", "q"}, s.Observe(all, cm(t, "u", 11, "q")).Parents)
			},
			version: "11", uid: "u",
		},
		"unordered versions": {
			reason: "what can't be ordered is taken as it comes",
			do: func(t *testing.T, s *Store) {
				odd, err := resource.New(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","uid":"u","resourceVersion":"x7"}}`))
				require.NoError(t, err)
				s.Observe(all, cm(t, "u", 10, "p"))
				s.Observe(all, odd)
			},
			version: "x7", uid: "u",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			tc.do(t, s)
			held, ok := s.Object(testRef(k8s.ConfigMap, "c"))
			require.Equal(t, tc.version != "", ok, tc.reason)
			if ok {
				require.Equal(t, tc.version, held.ResourceVersion(), tc.reason)
				require.Equal(t, tc.uid, held.UID(), tc.reason)
			}
		})
	}
}

func TestStoreWaiting(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	ref := testRef(k8s.ConfigMap, "c")
	s := New(sample.ParentType(), sample.TrackingLabel)
	require.False(t, s.Await(sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"), "q"), "there is nothing to wait for")
	for reason, end := range map[string]func() Change{
		"deleted":           func() Change { return s.ObserveDeleted(all, sample.Object(t, k8s.ConfigMap, "c", "u", 20, "p")) },
		"missing in a list": func() Change { return s.Replace(all, nil, "20") },
		"orphaned":          func() Change { return s.Observe(all, sample.Object(t, k8s.ConfigMap, "c", "u", 15, "")) },
		"our own delete, confirmed": func() Change {
			held, _ := s.Object(ref)
			deletes(s, held, nil)
			return s.ObserveDeleted(all, sample.Object(t, k8s.ConfigMap, "c", "u", 20, "p"))
		},
		"our own delete, confirmed by a list": func() Change {
			held, _ := s.Object(ref)
			deletes(s, held, nil)
			return s.Replace(all, nil, "20")
		},
	} {
		s = New(sample.ParentType(), sample.TrackingLabel)
		s.Observe(all, sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"))
		s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "q", "q", 11, ""))
		require.True(t, await(s, ref, "q"))
		require.Equal(t, []types.UID{"q"}, end().Woken, reason)
		require.Empty(t, s.mu.waiting, reason)
		require.Empty(t, s.mu.awaited, reason)
	}
}

// await is Store.Await for the state that is held.
func await(s *Store, ref object.Ref, parent types.UID) bool {
	held, _ := s.Object(ref)
	return s.Await(held, parent)
}

// An object is read, and changes before the parent begins to wait. No watch tells of that
// change again, so the parent mustn't wait for what the older state has promised.
func TestStoreWaiting_ForAnOlderState(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		held   *resource.Resource
		waits  bool
	}{
		"Same":        {"the watch will tell of its end", sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"), true},
		"Older":       {"the watch will tell of the state that was read, and then of its end", sample.Object(t, k8s.ConfigMap, "c", "u", 9, "p"), true},
		"Predecessor": {"so it will of the end of the one before", sample.Object(t, k8s.ConfigMap, "c", "t", 9, "p"), true},
		"Newer":       {"it may be nobody's by now", sample.Object(t, k8s.ConfigMap, "c", "u", 11, ""), false},
		"Successor":   {"which may stay", sample.Object(t, k8s.ConfigMap, "c", "v", 11, "p"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: k8s.ConfigMap}, tc.held)
			s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "q", "q", 1, ""))
			require.Equal(t, tc.waits, s.Await(sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"), "q"), tc.reason)
			require.Equal(t, tc.waits, len(s.mu.waiting) == 1)
		})
	}
}

// What a parent waits for may stay for ever. A parent that is gone doesn't wait.
func TestStoreWaiting_EndsWithTheParent(t *testing.T) {
	parents := Stream{Type: sample.ParentType()}
	s := New(sample.ParentType(), sample.TrackingLabel)
	for i, name := range []string{"c", "d"} {
		s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, name, "u-"+name, 10+i, "other"))
	}
	for _, uid := range []string{"q", "r"} {
		s.Observe(parents, sample.Object(t, sample.ParentType(), uid, uid, 20, ""))
		require.True(t, await(s, testRef(k8s.ConfigMap, "c"), types.UID(uid)))
	}
	require.True(t, await(s, testRef(k8s.ConfigMap, "d"), "q"))
	s.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "q", "q", 30, ""))
	require.Equal(t, map[object.Ref]map[types.UID]struct{}{testRef(k8s.ConfigMap, "c"): {"r": {}}}, s.mu.waiting)
	require.Len(t, s.mu.awaited, 1)

	require.True(t, await(s, testRef(k8s.ConfigMap, "d"), "q"), "a pass may end after its parent")
	require.Len(t, s.mu.waiting, 1)
	s.Replace(parents, nil, "40")
	require.Empty(t, s.mu.waiting)
	require.Empty(t, s.mu.awaited)
}

// A parent may live long and want other names all the time.
func TestStoreWaiting_EndsWithTheWish(t *testing.T) {
	s := New(sample.ParentType(), sample.TrackingLabel)
	for i, name := range []string{"c", "d"} {
		s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, name, "u-"+name, 10+i, "other"))
	}
	c, d := testRef(k8s.ConfigMap, "c"), testRef(k8s.ConfigMap, "d")
	for _, uid := range []types.UID{"q", "r"} {
		s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), string(uid), string(uid), 20, ""))
		require.True(t, await(s, c, uid))
		require.True(t, await(s, d, uid))
	}
	s.AwaitOnly("q", slices.Values([]object.Ref{d, testRef(k8s.Secret, "c")}))
	require.Equal(t, map[object.Ref]map[types.UID]struct{}{c: {"r": {}}, d: {"q": {}, "r": {}}}, s.mu.waiting)
	s.AwaitOnly("q", slices.Values([]object.Ref(nil)))
	require.Equal(t, map[types.UID]map[object.Ref]struct{}{"r": {c: {}, d: {}}}, s.mu.awaited)
}

// The API server has answered that a child is deleted. If no watch says so, too, it is
// to be read.
func TestStoreOverdue(t *testing.T) {
	children, c := Stream{Type: k8s.ConfigMap}, testRef(k8s.ConfigMap, "c")
	uids := func(s *Store) (found []types.UID, some bool) {
		overdue, some := s.Overdue()
		return slices.Sorted(maps.Keys(overdue)), some
	}
	deleted := func(t *testing.T) *Store {
		s := New(sample.ParentType(), sample.TrackingLabel)
		child := sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p")
		s.Observe(children, child)
		deletes(s, child, nil)
		found, some := uids(s)
		require.Empty(t, found, "the watch has some time")
		require.True(t, some)
		return s
	}
	t.Run("Confirmed", func(t *testing.T) {
		s := deleted(t)
		s.ObserveDeleted(children, sample.Object(t, k8s.ConfigMap, "c", "u", 12, "p"))
		found, some := uids(s)
		require.Empty(t, found)
		require.False(t, some)
	})
	t.Run("Gone", func(t *testing.T) {
		s := deleted(t)
		for range 2 {
			found, some := uids(s)
			require.Equal(t, []types.UID{"u"}, found, "until it could be read")
			require.True(t, some)
		}
		s.ReadGone(c, "u")
		found, some := uids(s)
		require.Empty(t, found)
		require.False(t, some)
		require.Empty(t, s.Observe(children, sample.Object(t, k8s.ConfigMap, "c", "u", 11, "p")), "the tombstone stays")
	})
	t.Run("There", func(t *testing.T) {
		s := deleted(t)
		_, _ = uids(s)
		change, contradicts := s.Contradicts(sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"))
		require.True(t, contradicts)
		require.Equal(t, []types.UID{"p"}, change.Parents)
		require.True(t, s.Contradicted("u"))
		s.ObserveDeleted(children, sample.Object(t, k8s.ConfigMap, "c", "u", 13, "p"))
		require.False(t, s.Contradicted("u"))
	})
}
