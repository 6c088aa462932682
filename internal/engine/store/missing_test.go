package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestStoreLost(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	child := func(version int, owner string) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, "c", "u", version, owner)
	}
	begin := func(s *Store) *Write {
		return s.Begin(Request{Ref: testRef(k8s.ConfigMap, "c"), Parent: "p", Deletes: "u"})
	}
	for name, tc := range map[string]struct {
		reason string
		do     func(s *Store)
		want   int
	}{
		"deleted":           {"by somebody", func(s *Store) { s.ObserveDeleted(all, child(20, "p")) }, 1},
		"missing in a list": {"by somebody, while there was no watch", func(s *Store) { s.Replace(all, nil, "20") }, 1},
		"replaced": {"the watch has told of its successor only", func(s *Store) {
			s.Replace(all, []*resource.Resource{sample.Object(t, k8s.ConfigMap, "c", "v", 20, "p")}, "20")
		}, 1},
		"orphaned":   {"it is no longer the parent's", func(s *Store) { s.Observe(all, child(20, "")) }, 1},
		"changed":    {"it is still there", func(s *Store) { s.Observe(all, child(20, "p")) }, 0},
		"own delete": {"the parent doesn't miss it", func(s *Store) { deletes(s, child(10, "p"), nil); s.ObserveDeleted(all, child(20, "p")) }, 0},
		"own delete, answer late": {"the watch told of it before", func(s *Store) {
			w := begin(s)
			s.ObserveDeleted(all, child(20, "p"))
			w.End(&Response{})
		}, 0},
		"own delete, list in between": {"the list explains no loss, so the answer explains none that comes later", func(s *Store) {
			w := begin(s)
			s.ObserveDeleted(all, child(20, "p"))
			s.Acknowledge("p", s.Lost("p"))
			s.Miss("p")
			w.End(&Response{})
		}, 1},
		"failed own delete": {"it is still there", func(s *Store) {
			begin(s).End(nil)
		}, 0},
		"failed own delete, later gone": {"somebody else deleted it", func(s *Store) {
			begin(s).End(nil)
			s.ObserveDeleted(all, child(20, "p"))
		}, 1},
		"failed own delete, gone meanwhile": {"somebody else was faster", func(s *Store) {
			w := begin(s)
			s.ObserveDeleted(all, child(20, "p"))
			w.End(nil)
		}, 1},
		"second own delete fails, gone meanwhile": {"by the first one", func(s *Store) {
			deletes(s, child(10, "p"), child(15, "p"))
			w := begin(s)
			s.ObserveDeleted(all, child(20, "p"))
			w.End(nil)
		}, 0},
		"own delete, with finalizers": {"it goes later", func(s *Store) {
			deletes(s, child(10, "p"), child(15, "p"))
			s.ObserveDeleted(all, child(20, "p"))
		}, 0},
		"of a parent that is gone": {"nobody misses it", func(s *Store) {
			s.ObserveDeleted(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 19, ""))
			s.ObserveDeleted(all, child(20, "p"))
		}, 0},
		"then the parent": {"nobody misses it any more", func(s *Store) {
			s.ObserveDeleted(all, child(20, "p"))
			s.ObserveDeleted(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 21, ""))
		}, 0},
		"acknowledged": {"one more was lost meanwhile", func(s *Store) {
			s.ObserveDeleted(all, child(20, "p"))
			s.Miss("p")
			s.Acknowledge("p", 1)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
			s.Observe(all, child(10, "p"))
			tc.do(s)
			require.Equal(t, tc.want, s.Lost("p"), tc.reason)
			if tc.want == 0 {
				require.Empty(t, s.mu.lost)
			}
			require.Empty(t, s.mu.open)
			if _, held := s.Object(testRef(k8s.ConfigMap, "c")); !held {
				require.Empty(t, s.mu.deleting)
			}
		})
	}
}
