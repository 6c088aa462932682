package store

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A reconciliation that ends no wait runs beside other readers of the store.
func TestAwaitOnly_BesideReaders(t *testing.T) {
	c, d := testRef(k8s.ConfigMap, "c"), testRef(k8s.ConfigMap, "d")
	for name, tc := range map[string]struct {
		reason         string
		awaits, wanted []object.Ref
	}{
		"No wait":     {"as nearly all parents", nil, []object.Ref{c, d}},
		"No wish":     {"the response has no child", nil, nil},
		"Same wishes": {"all waits go on", []object.Ref{c, d}, []object.Ref{d, c}},
		"More wishes": {"all waits go on", []object.Ref{c}, []object.Ref{c, d}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "q", "q", 20, ""))
			for i, name := range []string{"c", "d"} {
				s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, name, "u-"+name, 10+i, "other"))
			}
			for _, ref := range tc.awaits {
				require.True(t, await(s, ref, "q"))
			}
			s.mu.RLock()
			defer s.mu.RUnlock()
			s.AwaitOnly("q", slices.Values(tc.wanted)) // would block for ever
			require.Len(t, s.mu.awaited["q"], len(tc.awaits), tc.reason)
		})
	}
}
