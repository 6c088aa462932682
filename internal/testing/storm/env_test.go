package storm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// What the controllers of built-in types write is what objects of these types have, and makes them ready.
func TestBuiltIn(t *testing.T) {
	for _, kind := range []resource.Type{
		k8s.Pod, k8s.Deployment, k8s.StatefulSet, k8s.ReplicaSet, k8s.DaemonSet, k8s.Job, k8s.PersistentVolumeClaim, k8s.Namespace,
	} {
		t.Run(kind.Kind, func(t *testing.T) {
			act := builtIn(kind)
			require.NotNil(t, act)
			object := map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": map[string]any{"name": "a", "uid": "u", "resourceVersion": "1", "generation": int64(1)}, "spec": map[string]any{}}
			act(object)
			require.NotEmpty(t, object["status"])
			typed, err := scheme.Scheme.New(kind.GroupVersionKind())
			require.NoError(t, err)
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, typed, true))
			res, err := resource.New(object)
			require.NoError(t, err)
			require.Equal(t, readiness.Current, readiness.Of(res).State, readiness.Of(res).Message)
		})
	}
}
