package store

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestStoreFamilies(t *testing.T) {
	s := New(sample.ParentType(), sample.TrackingLabel)
	parents := Stream{Type: sample.ParentType()}
	s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
	s.Observe(Stream{Type: k8s.Secret}, sample.Object(t, k8s.Secret, "s", "s", 3, "p"))
	s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "b", "b", 4, "p"))
	s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "a", "a", 5, "p"))
	s.Bookmark(parents, "7")

	// Objects with the labels, but with another controller or none: nobody's children.
	for i, owners := range []string{`[]`, `[{"apiVersion":"v1","kind":"Service","name":"x","uid":"other","controller":true}]`} {
		copied, err := resource.New(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"copied%d","namespace":"ns","uid":"c%d","resourceVersion":"6","labels":{%q:"p"},"ownerReferences":%s}}`, i, i, sample.TrackingLabel, owners))
		require.NoError(t, err)
		require.Empty(t, s.Observe(Stream{Type: k8s.ConfigMap}, copied).Parents)
	}
	parent, children := s.Family("p")
	require.Equal(t, "p", parent.Name())
	require.Len(t, children, 3)
	require.Equal(t, []string{"a", "b", "s"}, []string{children[0].Name(), children[1].Name(), children[2].Name()}, "by type and name")
	require.Equal(t, []types.UID{"p"}, s.AllParents())

	// The parent is recreated under its name: that is a new parent. The old one has departed.
	s.KeepDeparted(true)
	require.Equal(t, Change{Edited: []types.UID{"p"}, Parents: []types.UID{"q"}}, s.Observe(parents, sample.Object(t, sample.ParentType(), "p", "q", 8, "")))
	_, ok := s.Parent("p")
	require.False(t, ok)
	_, departed := s.DepartedParent("p")
	require.True(t, departed)
	s.ForgetDeparted("p")
	_, departed = s.DepartedParent("p")
	require.False(t, departed)
	_, children = s.Family("q")
	require.Empty(t, children)
	require.Equal(t, []types.UID{"q"}, s.ObserveDeleted(parents, sample.Object(t, sample.ParentType(), "p", "q", 9, "")).Edited)
	last, departed := s.DepartedParent("q")
	require.True(t, departed)
	require.Equal(t, "9", last.ResourceVersion(), "the last state is the one that the watch delivered")
}

// A parent's key in the index outlives the states of the parent's children, and
// must not keep the JSON of the first child in memory.
func TestStoreIndexHoldsNoJSON(t *testing.T) {
	s := New(sample.ParentType(), sample.TrackingLabel)
	child := sample.Object(t, k8s.ConfigMap, "c", "u", 1, "p")
	label, _ := child.Label(sample.TrackingLabel)
	parents := s.Observe(Stream{Type: k8s.ConfigMap}, child).Parents
	require.Equal(t, []types.UID{"p"}, parents)
	require.NotSame(t, unsafe.StringData(label), unsafe.StringData(string(parents[0])))
	for uid := range s.mu.children {
		require.NotSame(t, unsafe.StringData(label), unsafe.StringData(string(uid)))
	}
	require.Equal(t, parents, s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "u", 2, "p")).Parents)
	require.Equal(t, parents, s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "u", 3, "")).Parents)
	require.Empty(t, s.mu.children)
}
