package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestHeldFields: what is held of a child's fields is for that state of a child alone
// that will have a pass.
func TestHeldFields(t *testing.T) {
	parent := func() *resource.Resource { return sample.Object(t, sample.ParentType(), "p", "p", 1, "") }
	child := func(version int) *resource.Resource { return sample.Object(t, k8s.ConfigMap, "c", "c", version, "p") }
	fields := []string{`{"f:data":{}}`}
	for name, tc := range map[string]struct {
		reason string
		after  func(s *Store)
		want   []string
	}{
		"held":         {"until the first pass", func(*Store) {}, fields},
		"the parent":   {"it is held, too", (*Store).HoldChildrenOnly, fields},
		"the pass":     {"the child was compared", func(s *Store) { s.ForgetFields([]*resource.Resource{child(2)}) }, nil},
		"another pass": {"other children were", func(s *Store) { s.ForgetFields(nil) }, fields},
		"all":          {"there will be another list", (*Store).ForgetAllFields, nil},
		"changed":      {"somebody may have taken a field", func(s *Store) { s.Read(child(3)) }, nil},
		"gone":         {"another object may have the name", func(s *Store) { s.ObserveDeleted(Stream{Type: k8s.ConfigMap}, child(3)) }, nil},
		"orphaned":     {"there is no pass without a parent", func(s *Store) { s.ObserveDeleted(Stream{Type: sample.ParentType()}, parent()) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: sample.ParentType()}, parent())
			s.Observe(Stream{Type: k8s.ConfigMap}, child(2))
			s.HoldFields(child(2), fields)
			tc.after(s)
			require.Equal(t, tc.want, s.HeldFields(child(2)), tc.reason)
			require.Empty(t, s.HeldFields(child(3)), "another state")
			if tc.want == nil {
				require.Nil(t, s.mu.fields, "nothing is left")
			}
		})
	}
	for name, res := range map[string]*resource.Resource{
		"parent": parent(), "another state": child(3), "no child": sample.Object(t, k8s.ConfigMap, "c", "c", 2, ""), "unknown": sample.Object(t, k8s.Secret, "c", "c", 2, "p"),
	} {
		s := New(sample.ParentType(), sample.TrackingLabel)
		s.Observe(Stream{Type: sample.ParentType()}, parent())
		s.Observe(Stream{Type: k8s.ConfigMap}, child(2))
		s.HoldFields(res, fields)
		require.Nil(t, s.mu.fields, fmt.Sprint(name, " isn't a child that is held"))
	}
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.Observe(Stream{Type: k8s.ConfigMap}, child(2))
	s.HoldFields(child(2), fields)
	s.HoldChildrenOnly()
	require.Nil(t, s.mu.fields, "its parent isn't held")
}
