package conformance

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

var parents = schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: "parents"}

// deleteWith deletes a Parent as somebody else would.
func deleteWith(t *testing.T, kit *testkit.Kit, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	_, untyped := clients(t, "somebody")
	require.NoError(t, untyped.Resource(parents).Namespace(kit.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

func TestC47_OrphaningAndForeground(t *testing.T) {
	scenario(t, "C47", "orphaning and foreground deletion of the parent aren't fought, orphaned children survive")
	needsControllerManager(t)
	t.Run("Orphan", func(t *testing.T) {
		s := newStage(t, "c47o", configMapChild())
		s.want(configMap("child", "k", "v"))
		before := s.Get(configMap("child", "", ""))
		deleteWith(t, s.Kit, "one", metav1.DeletePropagationOrphan)
		s.EventuallyGone(parent("one", nil), patience)
		settle(t, s.Kit)
		after := s.Get(configMap("child", "", ""))
		require.NotNil(t, after, "orphaned children survive")
		require.Equal(t, before.UID(), after.UID())
		require.Empty(t, after.OwnerReferences())
		require.Equal(t, []string{"create"}, verbs(s.Writes(), "ConfigMap", "child"))
	})
	t.Run("Foreground", func(t *testing.T) {
		s := newStage(t, "c47f", configMapChild())
		s.want(configMap("child", "k", "v"))
		deleteWith(t, s.Kit, "one", metav1.DeletePropagationForeground)
		s.EventuallyGone(parent("one", nil), patience)
		s.EventuallyGone(configMap("child", "", ""), patience)
		settle(t, s.Kit)
		require.Equal(t, []string{"create"}, verbs(s.Writes(), "ConfigMap", "child"))
	})
}

func TestC48_NamespaceTerminating(t *testing.T) {
	scenario(t, "C48", "a namespace being terminated: no error, no retry storm")
	needsControllerManager(t)
	s := newStage(t, "c48", configMapChild())
	s.want(configMap("child", "k", "v"))
	held := configMap("held", "k", "v") // holds the namespace in its termination
	metadata(held)["finalizers"] = []any{"example.com/hold"}
	s.Create(held)
	it := toUpdate(s.Get(parent("one", nil)))
	it.SetFinalizers([]string{"example.com/hold"})
	s.Update(it)

	typed, untyped := clients(t, "somebody")
	require.NoError(t, typed.CoreV1().Namespaces().Delete(t.Context(), s.Namespace, metav1.DeleteOptions{}))
	eventually(t, "the namespace is terminating", func() bool {
		ns, err := typed.CoreV1().Namespaces().Get(t.Context(), s.Namespace, metav1.GetOptions{})
		return err == nil && ns.Status.Phase == corev1.NamespaceTerminating
	})
	s.EventuallyGone(configMap("child", "", ""), patience)
	settle(t, s.Kit)
	require.Empty(t, s.errors())
	quiet(t, s.config.Name)
	for _, free := range []func() error{
		func() error {
			_, err := untyped.Resource(parents).Namespace(s.Namespace).Patch(t.Context(), "one", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		},
		func() error {
			_, err := typed.CoreV1().ConfigMaps(s.Namespace).Patch(t.Context(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := free(); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	}
}

func TestC49_EndpointSliceThatCopiedLabels(t *testing.T) {
	scenario(t, "C49", "an EndpointSlice that copied a Service child's labels, with EndpointSlice configured as a child type, is left alone")
	needsControllerManager(t)
	s := newStage(t, "c49", config.Child{Type: k8s.Service, Strategy: config.Replace}, config.Child{Type: k8s.EndpointSlice, Strategy: config.Replace})
	s.want(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	typed, _ := clients(t, "somebody")
	var slices []discoveryv1.EndpointSlice
	eventually(t, "the EndpointSlice with our labels", func() bool {
		list, err := typed.DiscoveryV1().EndpointSlices(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "roperator.com/operator=c49"})
		if err != nil {
			return false
		}
		slices = list.Items
		return len(slices) == 1
	})
	settle(t, s.Kit)
	require.Equal(t, 1, s.Snapshot(parent("one", nil)).Children.Len(), "it isn't shown")
	s.silent()
	now, err := typed.DiscoveryV1().EndpointSlices(s.Namespace).Get(t.Context(), slices[0].Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, slices[0].UID, now.UID)
	require.Equal(t, slices[0].ResourceVersion, now.ResourceVersion)
}

func TestC54_RecreatedParent(t *testing.T) {
	scenario(t, "C54", "a parent recreated under the same name is a new parent, and waits for the names its predecessor's children still hold")
	needsControllerManager(t)
	s := newStage(t, "c54", configMapChild())
	child := configMap("child", "k", "v")
	s.want(child)
	// A finalizer of somebody else keeps the old child for a while.
	held := s.Get(child).Unstructured()
	held.SetFinalizers([]string{"example.com/hold"})
	s.Update(held)
	settle(t, s.Kit)
	old, oldParent := s.Get(child).UID(), s.Get(parent("one", nil)).UID()
	s.Delete(parent("one", nil))
	s.EventuallyGone(parent("one", nil), patience)
	s.Create(parent("one", nil))
	require.NotEqual(t, oldParent, s.Get(parent("one", nil)).UID())
	eventually(t, "the old child is on its way out", func() bool { return s.Get(child).IsDeleting() })
	settle(t, s.Kit)
	require.Equal(t, old, s.Get(child).UID(), "it still holds its name")
	require.Empty(t, s.errors())
	quiet(t, s.config.Name) // it is waited for, not asked for again and again

	free := s.Get(child).Unstructured()
	free.SetFinalizers([]string{})
	s.Update(free)
	eventually(t, "the new child", func() bool {
		live := s.Get(child)
		return live != nil && live.UID() != old
	})
	settle(t, s.Kit)
	require.Equal(t, s.Get(parent("one", nil)).UID(), s.Get(child).OwnerReferences()[0].UID)
}

// waits is silent for a stage that has something left to do, but not now.
func (s *stage) waits() {
	s.t.Helper()
	needsAudit(s.t)
	s.silence.begin(shortSilence, nil)
}

// finalizing returns a handler that has something to finalize.
func finalizing(finalize func(*handler.SyncRequest) (*handler.FinalizeResponse, error)) handler.Funcs {
	return handler.Funcs{SyncFunc: copier, FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return finalize(req)
	}}
}

func released(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// withFinalizers changes the finalizers of a live parent as somebody else
// would, whatever happens at the same time.
func withFinalizers(t *testing.T, kit *testkit.Kit, name string, change func([]string) []string) {
	t.Helper()
	_, untyped := clients(t, "somebody")
	api := untyped.Resource(parents).Namespace(kit.Namespace)
	eventually(t, "a change of finalizers", func() bool {
		live, err := api.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		live.SetFinalizers(change(slices.Clone(live.GetFinalizers())))
		_, err = api.Update(t.Context(), live, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			require.NoError(t, err)
		}
		return err == nil
	})
}
