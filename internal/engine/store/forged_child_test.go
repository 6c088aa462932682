package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Someone who may write in another namespace only could forge a child, which the
// handler of a namespaced parent was shown.
func TestForgedChildInAnotherNamespaceWasShownToTheHandler(t *testing.T) {
	forged := func(namespace string) *resource.Resource {
		res, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name": "password", "namespace": namespace, "uid": "of-" + namespace, "resourceVersion": "2",
			"labels":          map[string]any{sample.TrackingLabel: "p"},
			"ownerReferences": []any{map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "name": "p", "uid": "p", "controller": true}},
		}})
		require.NoError(t, err)
		return res
	}
	for name, tc := range map[string]struct {
		reason, namespace string
		want              int
	}{
		"Namespaced":    {"owner references don't cross namespaces", "home", 1},
		"ClusterScoped": {"its children may be anywhere", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			meta := map[string]any{"name": "p", "uid": "p", "resourceVersion": "1", "namespace": tc.namespace}
			parent, err := resource.New(map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": meta})
			require.NoError(t, err)
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(Stream{Type: sample.ParentType()}, parent)
			for _, namespace := range []string{"elsewhere", "home"} {
				s.Observe(Stream{Type: k8s.Secret}, forged(namespace))
			}
			_, children := s.Family("p")
			require.Len(t, children, tc.want, tc.reason)
			require.Equal(t, "home", children[len(children)-1].Namespace())
		})
	}
}
