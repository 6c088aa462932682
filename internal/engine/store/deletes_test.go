package store

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestContradicts: a state that was read contradicts the answer to an own delete only if
// the very object is there and isn't on its way out.
func TestContradicts(t *testing.T) {
	going, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "11", "deletionTimestamp": "2026-01-01T00:00:00Z",
	}})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		reason string
		live   *resource.Resource
		want   bool
	}{
		"there":     {"the answer wasn't true", sample.Object(t, k8s.ConfigMap, "c", "u", 11, "p"), true},
		"going":     {"its finalizers hold it, as the answer may have left out", going, false},
		"successor": {"it has the name, and is another object", sample.Object(t, k8s.ConfigMap, "c", "v", 11, "p"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"))
			deletes(s, sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"), nil)
			require.Equal(t, tc.want, contradicts(s, tc.live), tc.reason)
			_, held := s.Object(testRef(k8s.ConfigMap, "c"))
			require.Equal(t, tc.want, held, "what contradicts is held")
			require.Equal(t, !tc.want, len(s.mu.deleted[k8s.ConfigMap]) == 1, "the tombstone stays otherwise")
		})
	}
}

// deletes has the operator delete an object. left is what remains of it for its finalizers, nil if it is gone.
func deletes(s *Store, res, left *resource.Resource) Change {
	return s.Begin(Request{Ref: object.RefOf(res), Deletes: res.UID()}).End(&Response{Live: left})
}

func contradicts(s *Store, live *resource.Resource) bool {
	_, contradicts := s.Contradicts(live)
	return contradicts
}

// A parent that was let go is gone. If it is there, its finalizers have come back, as
// after a restore of etcd from a backup.
func TestContradicts_Parent(t *testing.T) {
	object := map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": map[string]any{
		"name": "p", "namespace": "ns", "uid": "p", "resourceVersion": "11", "deletionTimestamp": "2026-01-01T00:00:00Z",
	}}
	going, err := resource.New(object)
	require.NoError(t, err)
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.Observe(Stream{Type: sample.ParentType()}, going)
	deletes(s, going, nil)
	c, contradicts := s.Contradicts(going)
	require.True(t, contradicts)
	require.Equal(t, []types.UID{"p"}, c.Parents)
	_, held := s.Parent("p")
	require.True(t, held)
}

// A delete that was answered as carried out hides what the watch tells of the object. If the
// object turns out to be there, its newest state is held: the watch tells of it only once.
func TestContradicts_WhatTheDeleteHasHidden(t *testing.T) {
	maps := Stream{Type: k8s.ConfigMap}
	for name, tc := range map[string]struct {
		reason    string
		delivered []int // versions
		read      int
		want      string
	}{
		"Nothing":     {"the read alone tells", nil, 2, "2"},
		"Newer":       {"somebody has changed it since the read", []int{4, 5}, 2, "5"},
		"Older":       {"the read is the newest", []int{3}, 6, "6"},
		"Same":        {"it makes no difference", []int{4}, 4, "4"},
		"Out of turn": {"a list may come late", []int{5, 4}, 2, "5"},
		"From before": {"it was held already", []int{1}, 2, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
			child := sample.Object(t, k8s.ConfigMap, "c", "c", 2, "p")
			s.Observe(maps, child)
			deletes(s, child, nil)
			for _, version := range tc.delivered {
				s.Observe(maps, sample.Object(t, k8s.ConfigMap, "c", "c", version, "p"))
				_, family := s.Family("p")
				require.Empty(t, family)
			}
			c, contradicts := s.Contradicts(sample.Object(t, k8s.ConfigMap, "c", "c", tc.read, "p"))
			require.True(t, contradicts)
			require.Equal(t, []types.UID{"p"}, c.Parents)
			_, family := s.Family("p")
			require.Len(t, family, 1)
			require.Equal(t, tc.want, family[0].ResourceVersion(), tc.reason)
		})
	}
}
