package store

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

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

func TestResourceMap(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	cm := func(t *testing.T, uid string, version int, owner string) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, "c", uid, version, owner)
	}
	for name, tc := range map[string]struct {
		reason  string
		do      func(t *testing.T, m *Store)
		version string // of the ConfigMap that is held then, "" for none
		uid     types.UID
	}{
		"late event of what a list lacks": {
			reason: "a list that overtook the watch told that it has gone; the watch, or an older list, doesn't bring it back",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 9, "p"))
				require.Len(t, m.Replace(all, nil, "12").Parents, 1)
				require.Empty(t, m.Observe(all, cm(t, "u", 10, "p")).Parents)
				require.Empty(t, m.Replace(all, []*resource.Resource{cm(t, "u", 10, "p")}, "11").Parents)
				require.Empty(t, m.ObserveDeleted(all, cm(t, "u", 12, "p")).Parents)
			},
		},
		"late event": {
			reason: "an event from before our write never takes it back",
			do: func(t *testing.T, m *Store) {
				m.Wrote(cm(t, "u", 10, "p"))
				require.Empty(t, m.Observe(all, cm(t, "u", 9, "p")).Parents)
			},
			version: "10", uid: "u",
		},
		"echo": {
			reason: "the echo of our own write concerns nobody",
			do: func(t *testing.T, m *Store) {
				m.Wrote(cm(t, "u", 10, "p"))
				require.Equal(t, Change{}, m.Observe(all, cm(t, "u", 10, "p")))
			},
			version: "10", uid: "u",
		},
		"late answer": {
			reason: "the answer to a write that the watch has overtaken is old",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 12, "p"))
				m.Wrote(cm(t, "u", 10, "p"))
			},
			version: "12", uid: "u",
		},
		"answer after the end": {
			reason: "an object that the watch has seen come and go isn't brought back by the answer to its create",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				require.Equal(t, []types.UID{"p"}, m.ObserveDeleted(all, cm(t, "u", 11, "p")).Parents)
				m.Wrote(cm(t, "u", 10, "p"))
			},
		},
		"answer after a list without it": {
			reason: "a list that is newer than the create and lacks the object says that it is gone",
			do: func(t *testing.T, m *Store) {
				m.Replace(all, nil, "11")
				m.Wrote(cm(t, "u", 10, "p"))
			},
		},
		"answer newer than the list": {
			reason: "a list from before the create says nothing about it",
			do: func(t *testing.T, m *Store) {
				m.Wrote(cm(t, "u", 10, "p"))
				require.Empty(t, m.Replace(all, nil, "9").Parents)
			},
			version: "10", uid: "u",
		},
		"relist finds a deletion": {
			reason: "what a newer list lacks was deleted while there was no watch",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				require.Equal(t, []types.UID{"p"}, m.Replace(all, nil, "20").Parents)
			},
		},
		"relist of another namespace": {
			reason: "a list of one namespace says nothing of the others",
			do: func(t *testing.T, m *Store) {
				m.Observe(Stream{k8s.ConfigMap, "ns"}, cm(t, "u", 10, "p"))
				m.Replace(Stream{k8s.ConfigMap, "elsewhere"}, nil, "20")
			},
			version: "10", uid: "u",
		},
		"relist with an older state": {
			reason: "a list never takes our write back",
			do: func(t *testing.T, m *Store) {
				m.Wrote(cm(t, "u", 10, "p"))
				m.Replace(all, []*resource.Resource{cm(t, "u", 9, "p")}, "9")
			},
			version: "10", uid: "u",
		},
		"own delete": {
			reason: "what we deleted is gone at once, and events on their way don't bring it back",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				m.WroteDelete(cm(t, "u", 10, "p"), nil)
				require.Equal(t, Change{}, m.Observe(all, cm(t, "u", 11, "p")))
				m.Replace(all, []*resource.Resource{cm(t, "u", 11, "p")}, "11")
			},
		},
		"own delete confirmed": {
			reason: "once the watch has confirmed the deletion the name may be taken again",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				m.WroteDelete(cm(t, "u", 10, "p"), nil)
				m.ObserveDeleted(all, cm(t, "u", 12, "p"))
				require.Empty(t, m.mu.deleted[k8s.ConfigMap])
				m.Observe(all, cm(t, "v", 13, "p"))
			},
			version: "13", uid: "v",
		},
		"own delete confirmed by a list": {
			reason: "a list without the object confirms as well",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				m.WroteDelete(cm(t, "u", 10, "p"), nil)
				m.Replace(all, nil, "12")
				require.Empty(t, m.mu.deleted[k8s.ConfigMap])
			},
		},
		"own delete, then a list from before the create": {
			reason: "a list older than the object says nothing about its end: its events are still on their way",
			do: func(t *testing.T, m *Store) {
				m.Wrote(cm(t, "u", 10, "p"))
				m.WroteDelete(cm(t, "u", 10, "p"), nil)
				m.Replace(all, nil, "9")
				require.Equal(t, Change{}, m.Observe(all, cm(t, "u", 10, "p")))
			},
		},
		"own delete with something left": {
			reason: "an object that is being deleted is held until it is gone",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				m.WroteDelete(cm(t, "u", 10, "p"), cm(t, "u", 11, "p"))
			},
			version: "11", uid: "u",
		},
		"own delete overtaken": {
			reason: "the answer to a delete doesn't take away what came after the object",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "v", 15, "p"))
				m.WroteDelete(cm(t, "u", 10, "p"), nil)
			},
			version: "15", uid: "v",
		},
		"deletion of a predecessor": {
			reason: "the end of one object isn't the end of the next under its name",
			do: func(t *testing.T, m *Store) {
				m.Wrote(cm(t, "v", 12, "p"))
				require.Equal(t, Change{}, m.ObserveDeleted(all, cm(t, "u", 11, "p")))
			},
			version: "12", uid: "v",
		},
		"recreated": {
			reason: "another UID under the same name replaces what was there",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				require.ElementsMatch(t, []types.UID{"p", "q"}, m.Observe(all, cm(t, "v", 12, "q")).Parents)
				_, family := m.Family("p")
				require.Empty(t, family)
			},
			version: "12", uid: "v",
		},
		"changes hands": {
			reason: "a child that changes hands concerns both parents",
			do: func(t *testing.T, m *Store) {
				m.Observe(all, cm(t, "u", 10, "p"))
				require.ElementsMatch(t, []types.UID{"p", "q"}, m.Observe(all, cm(t, "u", 11, "q")).Parents)
			},
			version: "11", uid: "u",
		},
		"unordered versions": {
			reason: "what can't be ordered is taken as it comes",
			do: func(t *testing.T, m *Store) {
				odd, err := resource.New(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","uid":"u","resourceVersion":"x7"}}`))
				require.NoError(t, err)
				m.Observe(all, cm(t, "u", 10, "p"))
				m.Observe(all, odd)
			},
			version: "x7", uid: "u",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(sample.ParentType(), sample.TrackingLabel)
			tc.do(t, m)
			held, ok := m.Object(testRef(k8s.ConfigMap, "c"))
			require.Equal(t, tc.version != "", ok, tc.reason)
			if ok {
				require.Equal(t, tc.version, held.ResourceVersion(), tc.reason)
				require.Equal(t, tc.uid, held.UID(), tc.reason)
			}
		})
	}
}

func TestResourceMapFamilies(t *testing.T) {
	m := New(sample.ParentType(), sample.TrackingLabel)
	parents := Stream{Type: sample.ParentType()}
	m.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
	m.Observe(Stream{Type: k8s.Secret}, sample.Object(t, k8s.Secret, "s", "s", 3, "p"))
	m.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "b", "b", 4, "p"))
	m.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "a", "a", 5, "p"))
	m.Bookmark(parents, "7")

	// It has the labels, and another controller or none: nobody's child.
	for i, owners := range []string{`[]`, `[{"apiVersion":"v1","kind":"Service","name":"x","uid":"other","controller":true}]`} {
		copied, err := resource.New(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"copied%d","namespace":"ns","uid":"c%d","resourceVersion":"6","labels":{%q:"p"},"ownerReferences":%s}}`, i, i, sample.TrackingLabel, owners))
		require.NoError(t, err)
		require.Empty(t, m.Observe(Stream{Type: k8s.ConfigMap}, copied).Parents)
	}
	parent, children := m.Family("p")
	require.Equal(t, "p", parent.Name())
	require.Len(t, children, 3)
	require.Equal(t, []string{"a", "b", "s"}, []string{children[0].Name(), children[1].Name(), children[2].Name()}, "by type and name")
	require.Equal(t, []types.UID{"p"}, m.AllParents())

	// Recreated under its name: a new parent, and the old one is to be forgotten.
	m.KeepDeparted = true
	require.ElementsMatch(t, []types.UID{"p", "q"}, m.Observe(parents, sample.Object(t, sample.ParentType(), "p", "q", 8, "")).Parents)
	_, ok := m.Parent("p")
	require.False(t, ok)
	_, departed := m.DepartedParent("p")
	require.True(t, departed)
	m.ForgetDeparted("p")
	_, departed = m.DepartedParent("p")
	require.False(t, departed)
	_, children = m.Family("q")
	require.Empty(t, children)
	require.Equal(t, []types.UID{"q"}, m.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "p", "q", 9, "")).Parents)
	last, departed := m.DepartedParent("q")
	require.True(t, departed)
	require.Equal(t, "9", last.ResourceVersion(), "the last state is the one that the watch delivered")
}

func TestResourceMapWaiting(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	ref := testRef(k8s.ConfigMap, "c")
	m := New(sample.ParentType(), sample.TrackingLabel)
	require.False(t, m.Await(ref, "q"), "there is nothing to wait for")
	for reason, end := range map[string]func() Change{
		"deleted":           func() Change { return m.ObserveDeleted(all, sample.Object(t, k8s.ConfigMap, "c", "u", 20, "p")) },
		"missing in a list": func() Change { return m.Replace(all, nil, "20") },
		"orphaned":          func() Change { return m.Observe(all, sample.Object(t, k8s.ConfigMap, "c", "u", 15, "")) },
		"our own delete, confirmed": func() Change {
			held, _ := m.Object(ref)
			m.WroteDelete(held, nil)
			return m.ObserveDeleted(all, sample.Object(t, k8s.ConfigMap, "c", "u", 20, "p"))
		},
		"our own delete, confirmed by a list": func() Change {
			held, _ := m.Object(ref)
			m.WroteDelete(held, nil)
			return m.Replace(all, nil, "20")
		},
	} {
		m = New(sample.ParentType(), sample.TrackingLabel)
		m.Observe(all, sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"))
		require.True(t, m.Await(ref, "q"))
		require.Equal(t, []types.UID{"q"}, end().Woken, reason)
		require.Empty(t, m.mu.waiting, reason)
	}
}

func TestResourceMapLost(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	child := func(version int, owner string) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, "c", "u", version, owner)
	}
	for name, tc := range map[string]struct {
		reason string
		do     func(m *Store)
		want   int
	}{
		"deleted":           {"by somebody", func(m *Store) { m.ObserveDeleted(all, child(20, "p")) }, 1},
		"missing in a list": {"by somebody, while there was no watch", func(m *Store) { m.Replace(all, nil, "20") }, 1},
		"replaced": {"the watch has told of its successor only", func(m *Store) {
			m.Replace(all, []*resource.Resource{sample.Object(t, k8s.ConfigMap, "c", "v", 20, "p")}, "20")
		}, 1},
		"orphaned":   {"it is no longer the parent's", func(m *Store) { m.Observe(all, child(20, "")) }, 1},
		"changed":    {"it is still there", func(m *Store) { m.Observe(all, child(20, "p")) }, 0},
		"own delete": {"the parent doesn't miss it", func(m *Store) { m.WroteDelete(child(10, "p"), nil); m.ObserveDeleted(all, child(20, "p")) }, 0},
		"own delete, answer late": {"the watch told of it before", func(m *Store) {
			m.ObserveDeleted(all, child(20, "p"))
			m.WroteDelete(child(10, "p"), nil)
		}, 0},
		"own delete, with finalizers": {"it goes later", func(m *Store) {
			m.WroteDelete(child(10, "p"), child(15, "p"))
			m.ObserveDeleted(all, child(20, "p"))
		}, 0},
		"of a parent that is gone": {"nobody misses it", func(m *Store) {
			m.ObserveDeleted(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 19, ""))
			m.ObserveDeleted(all, child(20, "p"))
		}, 0},
		"then the parent": {"nobody misses it any more", func(m *Store) {
			m.ObserveDeleted(all, child(20, "p"))
			m.ObserveDeleted(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 21, ""))
		}, 0},
		"explained": {"one more was lost meanwhile", func(m *Store) {
			m.ObserveDeleted(all, child(20, "p"))
			m.Miss("p")
			m.Explain("p", 1)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(sample.ParentType(), sample.TrackingLabel)
			m.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
			m.Observe(all, child(10, "p"))
			tc.do(m)
			require.Equal(t, tc.want, m.Lost("p"), tc.reason)
			if tc.want == 0 {
				require.Empty(t, m.mu.lost)
			}
			if _, held := m.Object(testRef(k8s.ConfigMap, "c")); !held {
				require.Empty(t, m.mu.asked)
			}
		})
	}
}

// Two sources, a watch that delivers in order but late and the answers to our
// own writes that come whenever they like, never show a state older than the
// newest own write, and agree with the server in the end.
func TestResourceMapReadsItsWrites(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	ref := testRef(k8s.ConfigMap, "c")
	type event struct {
		res     *resource.Resource
		deleted bool
		relist  int // the version of a list, with res in it if there was one
	}
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := New(sample.ParentType(), sample.TrackingLabel)
		var pending []event              // the watch's, in order
		var answers []*resource.Resource // of own creates and updates, not yet taken
		var live *resource.Resource      // on the server
		version, generation, newest := 1, 0, 0
		deliver := func() {
			e := pending[0]
			pending = pending[1:]
			switch {
			case e.relist > 0 && e.res == nil:
				m.Replace(all, nil, strconv.Itoa(e.relist))
			case e.relist > 0:
				m.Replace(all, []*resource.Resource{e.res}, strconv.Itoa(e.relist))
			case e.deleted:
				m.ObserveDeleted(all, e.res)
			default:
				m.Observe(all, e.res)
			}
		}
		for range 60 {
			version++
			// Our writes are about the object that we hold, since the server refuses
			// others, and a pass waits for the answer to each.
			held, holds := m.Object(ref)
			own := rnd.IntN(2) == 0 && len(answers) == 0 && (live == nil && !holds || live != nil && holds && held.UID() == live.UID())
			switch {
			case rnd.IntN(3) == 0 && len(pending) > 0:
				deliver()
			case rnd.IntN(12) == 0: // the watch is lost, and what it had yet to tell
				pending = []event{{res: live, relist: version - 1}}
				version--
			case rnd.IntN(4) == 0 && len(answers) > 0:
				i := rnd.IntN(len(answers))
				m.Wrote(answers[i])
				answers = append(answers[:i], answers[i+1:]...)
			case live == nil || rnd.IntN(3) > 0: // create or update
				if live == nil {
					generation++
				}
				live = sample.Object(t, k8s.ConfigMap, "c", fmt.Sprint("u", generation), version, "p")
				pending = append(pending, event{res: live})
				switch {
				case own && rnd.IntN(2) == 0:
					answers = append(answers, live)
				case own:
					m.Wrote(live)
					newest = version
				}
			default: // delete
				gone := sample.Object(t, k8s.ConfigMap, "c", string(live.UID()), version, "p")
				pending = append(pending, event{res: gone, deleted: true})
				if own {
					m.WroteDelete(live, nil)
					newest = version
				}
				live = nil
			}
			if held, ok := m.Object(ref); ok {
				at, err := strconv.Atoi(held.ResourceVersion())
				require.NoError(t, err)
				require.GreaterOrEqual(t, at, newest, "seed %d: older than an own write", seed)
			}
		}
		for len(pending) > 0 {
			deliver()
		}
		for _, late := range answers {
			m.Wrote(late)
		}
		held, ok := m.Object(ref)
		require.Equal(t, live != nil, ok, "seed %d", seed)
		if ok {
			require.Equal(t, live.ResourceVersion(), held.ResourceVersion(), "seed %d", seed)
		}
		require.Empty(t, m.mu.deleted[k8s.ConfigMap], "seed %d: every tombstone has been taken away", seed)
	}
}

// A parent's key in the index is older than most of its children's states, and
// must not hold the JSON of the first of them in memory.
func TestResourceMapHoldsNoJSONByAnOwner(t *testing.T) {
	m := New(sample.ParentType(), sample.TrackingLabel)
	child := sample.Object(t, k8s.ConfigMap, "c", "u", 1, "p")
	label, _ := child.Label(sample.TrackingLabel)
	parents := m.Observe(Stream{Type: k8s.ConfigMap}, child).Parents
	require.Equal(t, []types.UID{"p"}, parents)
	require.NotSame(t, unsafe.StringData(label), unsafe.StringData(string(parents[0])))
	for uid := range m.mu.children {
		require.NotSame(t, unsafe.StringData(label), unsafe.StringData(string(uid)))
	}
	require.Equal(t, parents, m.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "u", 2, "p")).Parents)
	require.Equal(t, parents, m.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "u", 3, "")).Parents)
	require.Empty(t, m.mu.children)
}
