package runner

import (
	"context"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Whoever may write in some other namespace only could show a handler a child
// of their own making.
func TestForgedChildInAnotherNamespaceWasShownToTheHandler(t *testing.T) {
	forged := func(namespace string) *resource.Resource {
		res, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name": "password", "namespace": namespace, "uid": "of-" + namespace, "resourceVersion": "2",
			"labels":          map[string]any{testTracking: "p"},
			"ownerReferences": []any{map[string]any{"apiVersion": testParentType().APIVersion, "kind": testParentType().Kind, "name": "p", "uid": "p", "controller": true}},
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
			parent, err := resource.New(map[string]any{"apiVersion": testParentType().APIVersion, "kind": testParentType().Kind, "metadata": meta})
			require.NoError(t, err)
			m := newResourceMap(testParentType(), testTracking)
			m.observe(stream{Type: testParentType()}, parent)
			for _, namespace := range []string{"elsewhere", "home"} {
				m.observe(stream{Type: k8s.Secret}, forged(namespace))
			}
			_, children := m.family("p")
			require.Len(t, children, tc.want, tc.reason)
			require.Equal(t, "home", children[len(children)-1].Namespace())
		})
	}
}

// With --log-level=debug-4 and below, client-go logged the bodies of requests,
// values of Secrets included.
func TestBodiesWereLoggedAtHighVerbosity(t *testing.T) {
	var out logBuffer
	logger := logr.FromSlogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
	ctx := withoutBodies(klog.NewContext(context.Background(), logger))
	for _, at := range []klog.Logger{klog.FromContext(ctx), klog.FromContext(ctx).WithName("n").WithValues("k", "v"), klog.FromContext(ctx).V(3)} {
		require.False(t, at.V(bodyVerbosity).Enabled())
		at.V(bodyVerbosity).Info("secret")
		at.V(bodyVerbosity + 5).Info("secret")
	}
	klog.FromContext(ctx).V(bodyVerbosity - 1).Info("less")
	require.NotContains(t, out.String(), "secret")
	require.Contains(t, out.String(), "less")

	calm := klog.NewContext(context.Background(), logr.FromSlogHandler(slog.NewTextHandler(&out, nil)))
	require.Equal(t, calm, withoutBodies(calm), "which costs nothing")
}
