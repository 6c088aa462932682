package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestDeparted: the last state of a parent that has left the watch is kept until it is
// released, gone for good or back.
func TestDeparted(t *testing.T) {
	parents := Stream{Type: sample.ParentType()}
	parent := func(version int) *resource.Resource {
		return sample.Object(t, sample.ParentType(), "p", "p", version, "")
	}
	for name, tc := range map[string]struct {
		reason string
		keep   bool
		do     func(s *Store)
		want   string // the resourceVersion of the state that is kept; empty: there is none
	}{
		"Left":            {"it may have to be released", true, func(s *Store) { s.ObserveDeleted(parents, parent(5)) }, "5"},
		"Left, unwanted":  {"nobody would forget it", false, func(s *Store) { s.ObserveDeleted(parents, parent(5)) }, ""},
		"Found":           {"it left while no operator ran", true, func(s *Store) { s.ObserveDeleted(parents, parent(5)); s.ForgetDeparted("p"); s.Depart(parent(6)) }, "6"},
		"Found, held":     {"it is a parent", true, func(s *Store) { s.Depart(parent(6)) }, ""},
		"Found, unwanted": {"nobody would forget it", false, func(s *Store) { s.ObserveDeleted(parents, parent(5)); s.Depart(parent(6)) }, ""},
		"Back":            {"it is a parent again", true, func(s *Store) { s.ObserveDeleted(parents, parent(5)); s.Observe(parents, parent(7)) }, ""},
		"Released": {"nothing is left to do", true, func(s *Store) {
			s.ObserveDeleted(parents, parent(5))
			last, _ := s.DepartedParent("p")
			s.Released(last)
		}, ""},
		"Left again": {"it has been back since the state that was released", true, func(s *Store) {
			s.ObserveDeleted(parents, parent(5))
			last, _ := s.DepartedParent("p")
			s.Observe(parents, parent(7))
			s.ObserveDeleted(parents, parent(8))
			s.Released(last)
		}, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.KeepDeparted(tc.keep)
			s.Observe(parents, parent(4))
			tc.do(s)
			last, ok := s.DepartedParent("p")
			require.Equal(t, tc.want != "", ok, tc.reason)
			if ok {
				require.Equal(t, tc.want, last.ResourceVersion(), tc.reason)
			}
		})
	}
}

// TestUnlabelled: the unlabelled objects of a parent are those in its namespace that
// aren't children by now. They are forgotten with the parent.
func TestUnlabelled(t *testing.T) {
	parents, all := Stream{Type: sample.ParentType()}, Stream{Type: k8s.ConfigMap}
	foreign, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "elsewhere", "uid": "u", "resourceVersion": "5"}})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		reason string
		do     func(s *Store)
		want   int
	}{
		"Noted":        {"it may be adopted", func(s *Store) { s.NoteUnlabelled("p", sample.Object(t, k8s.ConfigMap, "c", "u", 5, "")) }, 1},
		"Other parent": {"it is that one's", func(s *Store) { s.NoteUnlabelled("q", sample.Object(t, k8s.ConfigMap, "c", "u", 5, "")) }, 0},
		"Namespace":    {"owner references don't cross namespaces", func(s *Store) { s.NoteUnlabelled("p", foreign) }, 0},
		"Child by then": {"it was labelled after it was listed", func(s *Store) {
			s.Observe(all, sample.Object(t, k8s.ConfigMap, "c", "u", 6, "p"))
			s.NoteUnlabelled("p", sample.Object(t, k8s.ConfigMap, "c", "u", 5, ""))
		}, 0},
		"Child since": {"somebody has labelled it", func(s *Store) {
			s.NoteUnlabelled("p", sample.Object(t, k8s.ConfigMap, "c", "u", 5, ""))
			s.Observe(all, sample.Object(t, k8s.ConfigMap, "c", "u", 6, "p"))
		}, 0},
		"Forgotten": {"it is gone", func(s *Store) {
			s.NoteUnlabelled("p", sample.Object(t, k8s.ConfigMap, "c", "u", 5, ""))
			s.ForgetUnlabelled("p", testRef(k8s.ConfigMap, "c"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
			tc.do(s)
			require.Len(t, s.Unlabelled("p"), tc.want, tc.reason)
			s.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "p", "p", 9, ""))
			require.Empty(t, s.Unlabelled("p"), "there is no such parent")
			require.NotContains(t, s.mu.unlabelled, "p")
		})
	}
}

// TestParentsListed: a list of the parents explains what the children lacked in the list
// that was made before it, and not in a later one.
func TestParentsListed(t *testing.T) {
	parents, children := Stream{Type: sample.ParentType()}, Stream{Type: k8s.ConfigMap}
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.Replace(parents, nil, "5")
	require.False(t, s.ParentsBehind())
	s.Replace(children, nil, "7")
	require.True(t, s.ParentsBehind())
	asOf := s.ChildrenAsOf()
	s.Replace(children, nil, "8")
	s.ParentsListed(asOf)
	require.True(t, s.ParentsBehind(), "the children were listed again since")
	s.ParentsListed(s.ChildrenAsOf())
	require.False(t, s.ParentsBehind())
}
