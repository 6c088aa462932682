package store

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

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
			s.WroteDelete(sample.Object(t, k8s.ConfigMap, "c", "u", 10, "p"), nil)
			require.Equal(t, tc.want, contradicts(s, tc.live), tc.reason)
			_, held := s.Object(testRef(k8s.ConfigMap, "c"))
			require.Equal(t, tc.want, held, "what contradicts is held")
			require.Equal(t, !tc.want, len(s.mu.deleted[k8s.ConfigMap]) == 1, "the tombstone stays otherwise")
		})
	}
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
	s.WroteDelete(going, nil)
	c, contradicts := s.Contradicts(going)
	require.True(t, contradicts)
	require.Equal(t, []types.UID{"p"}, c.Parents)
	_, held := s.Parent("p")
	require.True(t, held)
}
