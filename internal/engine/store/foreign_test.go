package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A labelled is an object with the operator's labels.
type labelled struct {
	namespace, tracked string
	owner              string // of the parents' type; "": there is none
	kind               string // of the owner, if it isn't the parents'
}

func (l labelled) object(t *testing.T, name string, version, size int) *resource.Resource {
	t.Helper()
	meta := map[string]any{"name": name, "namespace": l.namespace, "uid": "uid-" + name, "resourceVersion": fmt.Sprint(version), "labels": map[string]any{sample.TrackingLabel: l.tracked}}
	kind := sample.ParentType().Kind
	if l.kind != "" {
		kind = l.kind
	}
	if l.owner != "" {
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "example.com/v2", "kind": kind, "name": "p", "uid": l.owner, "controller": true}}
	}
	res, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"k": strings.Repeat("x", size)}})
	require.NoError(t, err)
	return res
}

// Of what isn't a child of a parent that is held, the store holds the key alone, and
// nobody is told of it.
func TestForeign_HeldByTheKeyAlone(t *testing.T) {
	const size = 100_000
	maps, ref := Stream{Type: k8s.ConfigMap}, object.Ref{Type: k8s.ConfigMap, Key: types.NamespacedName{Namespace: "ns", Name: "c"}}
	for name, tc := range map[string]struct {
		reason string
		labelled
		whole, orphan bool
	}{
		"Child":            {"its parent is held", labelled{"ns", "p", "p", ""}, true, false},
		"No owner":         {"anybody can give it the labels", labelled{"ns", "p", "", ""}, false, false},
		"Another label":    {"labels and owner don't agree", labelled{"ns", "q", "p", ""}, false, false},
		"Another kind":     {"the owner is no parent, though it has the UID of one", labelled{"ns", "p", "p", "ConfigMap"}, false, false},
		"Another parent":   {"a parent that may still come", labelled{"ns", "q", "q", ""}, false, true},
		"Other namespace":  {"owner references don't cross namespaces", labelled{"other", "p", "p", ""}, false, false},
		"Not of a parent":  {"another object's child", labelled{"ns", "s", "s", "Service"}, false, false},
		"Empty label":      {"it names nobody", labelled{"ns", "", "", ""}, false, false},
		"Foreign, no name": {"nor does it here", labelled{"other", "q", "q", ""}, false, true},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%t", name, late), func(t *testing.T) {
				s := New(sample.ParentType(), sample.TrackingLabel)
				s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
				if !late {
					s.HoldChildrenOnly()
				}
				at := ref
				at.Key.Namespace = tc.namespace
				c := s.Observe(maps, tc.object(t, "c", 2, size))
				if late {
					s.HoldChildrenOnly()
				} else {
					require.Equal(t, tc.whole, len(c.Parents) > 0, tc.reason)
				}
				objects, bytes := s.Usage(k8s.ConfigMap)
				require.Equal(t, 1, objects)
				require.Equal(t, tc.whole, bytes > size, "%d bytes: %s", bytes, tc.reason)
				held, ok := s.Object(at)
				require.True(t, ok, "its name is known to be taken")
				require.Equal(t, "2", held.ResourceVersion())
				require.Equal(t, types.UID("uid-c"), held.UID())
				_, family := s.Family("p")
				require.Equal(t, tc.whole, len(family) == 1)
				require.Equal(t, tc.orphan, len(s.mu.orphans) == 1)

				// An older state doesn't replace it. A newer one does, and its end is noticed.
				s.Observe(maps, tc.object(t, "c", 1, size))
				held, _ = s.Object(at)
				require.Equal(t, "2", held.ResourceVersion())
				s.Observe(maps, tc.object(t, "c", 3, size))
				held, _ = s.Object(at)
				require.Equal(t, "3", held.ResourceVersion())
				require.True(t, await(s, at, "p"))
				require.Equal(t, []types.UID{"p"}, s.ObserveDeleted(maps, tc.object(t, "c", 4, 0)).Woken)
				objects, bytes = s.Usage(k8s.ConfigMap)
				require.Zero(t, objects+bytes)
				require.Empty(t, s.mu.orphans)
				require.Empty(t, s.mu.unlabelled)
			})
		}
	}
}

// A child that came before its parent is read when the parent has come. The state that was
// read is the one of which the key is held.
func TestForeign_ChildBeforeItsParent(t *testing.T) {
	maps, parents := Stream{Type: k8s.ConfigMap}, Stream{Type: sample.ParentType()}
	for name, again := range map[string]func(s *Store, child *resource.Resource){
		"Read":   func(s *Store, child *resource.Resource) { s.Read(child) },
		"Event":  func(s *Store, child *resource.Resource) { s.Observe(maps, child) },
		"List":   func(s *Store, child *resource.Resource) { s.Replace(maps, []*resource.Resource{child}, "9") },
		"Undone": func(s *Store, child *resource.Resource) { s.Contradicts(child); s.Read(child) },
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.HoldChildrenOnly()
			child := labelled{"ns", "p", "p", ""}.object(t, "c", 2, 1000)
			require.Empty(t, s.Observe(maps, child).Parents)
			require.Empty(t, s.Unlabelled("p"))
			s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 3, ""))
			noted := s.Unlabelled("p")
			require.Equal(t, []Unlabelled{{Ref: object.RefOf(child), UID: child.UID()}}, noted)
			again(s, child)
			_, family := s.Family("p")
			require.Equal(t, []*resource.Resource{child}, family)
			require.Empty(t, s.Unlabelled("p"))
			require.Empty(t, s.mu.orphans)
			_, bytes := s.Usage(k8s.ConfigMap)
			require.Equal(t, child.Size(), bytes)
		})
	}
}

// While their parent isn't selected, the keys of its children are held. They are read when
// the parent is back.
func TestForeign_ChangedWhileTheParentIsAway(t *testing.T) {
	maps, parents := Stream{Type: k8s.ConfigMap}, Stream{Type: sample.ParentType()}
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.KeepDeparted(true)
	s.HoldChildrenOnly()
	of := labelled{"ns", "p", "p", ""}
	s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
	for _, name := range []string{"same", "changed"} {
		s.Observe(maps, of.object(t, name, 2, 0))
	}
	s.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "p", "p", 3, ""))
	s.Observe(maps, of.object(t, "changed", 4, 0))
	s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 5, ""))
	_, family := s.Family("p")
	require.Empty(t, family)
	noted := s.Unlabelled("p")
	require.Len(t, noted, 2)
	require.Equal(t, []string{"changed", "same"}, []string{noted[0].Ref.Key.Name, noted[1].Ref.Key.Name})
	s.Read(of.object(t, "same", 2, 0))
	s.Read(of.object(t, "changed", 4, 0))
	_, family = s.Family("p")
	require.Len(t, family, 2)
	require.Empty(t, s.mu.orphans)
}

// A child that came before its parent is still noted after the parent has left without a
// pass, as in a replica that waits for the lease.
func TestForeign_ParentLeavesBeforeItsPass(t *testing.T) {
	maps, parents := Stream{Type: k8s.ConfigMap}, Stream{Type: sample.ParentType()}
	for name, leave := range map[string]func(s *Store){
		"Standby": func(s *Store) {
			s.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "p", "p", 4, ""))
		},
		"Leader": func(s *Store) {
			s.KeepDeparted(true)
			s.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "p", "p", 4, ""))
			s.ForgetDeparted("p")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.HoldChildrenOnly()
			s.Observe(maps, labelled{"ns", "p", "p", ""}.object(t, "c", 2, 0))
			s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 3, ""))
			s.NoteUnlabelled("p", sample.Object(t, k8s.ConfigMap, "unlabelled", "u", 2, ""))
			leave(s)
			s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 5, ""))
			noted := s.Unlabelled("p")
			require.Len(t, noted, 1)
			require.Equal(t, "c", noted[0].Ref.Key.Name)
		})
	}
}

// Whoever waits for the name of a child whose parent isn't held is woken when the child
// gets another owner.
func TestForeign_OrphanedWhileItIsWaitedFor(t *testing.T) {
	maps := Stream{Type: k8s.ConfigMap}
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.HoldChildrenOnly()
	s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
	child := labelled{"ns", "gone", "gone", ""}.object(t, "c", 2, 0)
	s.Observe(maps, child)
	require.True(t, s.Await(child, "p"))
	require.Empty(t, s.Observe(maps, labelled{"ns", "gone", "gone", ""}.object(t, "c", 3, 0)).Woken)
	require.Equal(t, []types.UID{"p"}, s.Observe(maps, labelled{"ns", "gone", "", ""}.object(t, "c", 4, 0)).Woken)
}
