package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// inOrder is an operator whose children are torn down in order: Deployments, Secrets, ConfigMaps.
func inOrder(name string) config.Operator {
	cfg := operator(name, childrenBy(config.Replace, k8s.ConfigMap, k8s.Secret, k8s.Deployment)...)
	cfg.Teardown = config.TeardownOrdered
	return cfg
}

// ofEach is a Sync that wants two children of each type of inOrder.
func ofEach(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
	var children []any
	for _, name := range []string{"a", "b"} {
		deployment := typedDeployment()
		deployment.Name = name
		children = append(children, configMapNamed(name), secretWith(name, "x"), deployment)
	}
	return &handler.SyncResponse{Children: children}, nil
}

// deletedKinds returns the kinds of what the operator has deleted, in order, each once while it
// is the same.
func deletedKinds(kit *testkit.Kit) (kinds []string) {
	for _, w := range kit.Writes() {
		if w.Verb == "delete" {
			kinds = append(kinds, w.Type.Kind)
		}
	}
	return slices.Compact(kinds)
}

func TestC108_OrderedTeardown(t *testing.T) {
	scenario(t, "C108", "TeardownOrdered: the children of a deleted parent go type by type, in the reverse of the configuration's order, and then the parent")
	kit := testkit.New(t, cluster, inOrder("c108"), handler.SyncFunc(ofEach))
	kit.Create(parent("one", nil))
	settle(t, kit)
	kit.Delete(parent("one", nil))
	kit.EventuallyGone(parent("one", nil), patience)
	settle(t, kit)
	require.Equal(t, []string{"Deployment", "Secret", "ConfigMap"}, deletedKinds(kit))
	for _, of := range []resource.Type{k8s.ConfigMap, k8s.Secret, k8s.Deployment} {
		require.Nil(t, kit.Get(map[string]any{"apiVersion": of.APIVersion, "kind": of.Kind, "metadata": map[string]any{"name": "a"}}))
	}
}

func TestC109_TeardownAndForeignFinalizer(t *testing.T) {
	scenario(t, "C109", "TeardownOrdered: a child that somebody else's finalizer holds, of a type in the middle, holds up the parent alone, also over a restart; log and Event say so once")
	kit := testkit.New(t, cluster, inOrder("c109"), handler.SyncFunc(ofEach))
	kit.Create(parent("one", nil))
	settle(t, kit)
	held := secretWith("a", "x")
	held["metadata"].(map[string]any)["finalizers"] = []any{"example.com/hold"}
	kit.Update(held)
	kit.Delete(parent("one", nil))
	kit.EventuallyGone(configMapNamed("a"), patience)
	kit.EventuallyGone(configMapNamed("b"), patience)
	settle(t, kit)
	require.NotNil(t, kit.Get(parent("one", nil)))
	const text = "waiting for the end of Secret a, which the finalizers example.com/hold hold"
	require.Equal(t, []string{text}, kit.Waits(parent("one", nil)))
	kit.Restart(inOrder("c109"), handler.SyncFunc(ofEach))
	settle(t, kit)
	require.NotNil(t, kit.Get(parent("one", nil)))
	quiet(t, "c109")
	_, dynamic := clients(t, "somebody")
	_, err := dynamic.Resource(plural(k8s.Secret)).Namespace(kit.Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	kit.EventuallyGone(parent("one", nil), patience)
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(parent("one", nil)))
}

func TestC110_TeardownAndPropagation(t *testing.T) {
	scenario(t, "C110", "TeardownOrdered: a parent that is deleted with foreground propagation goes with its children, one that is deleted with orphan keeps them")
	needsControllerManager(t)
	_, dynamic := clients(t, "somebody")
	for name, propagation := range map[string]metav1.DeletionPropagation{"foreground": metav1.DeletePropagationForeground, "orphan": metav1.DeletePropagationOrphan} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, cluster, inOrder("c110-"+name), handler.SyncFunc(ofEach))
			kit.Create(parent("one", nil))
			settle(t, kit)
			parents := dynamic.Resource(plural(parentType)).Namespace(kit.Namespace)
			require.NoError(t, parents.Delete(t.Context(), "one", metav1.DeleteOptions{PropagationPolicy: &propagation}))
			kit.EventuallyGone(parent("one", nil), patience)
			settle(t, kit)
			stays := propagation == metav1.DeletePropagationOrphan
			for _, child := range []any{configMapNamed("a"), secretWith("b", "x")} {
				require.Equal(t, stays, kit.Get(child) != nil)
			}
			if stays {
				require.Empty(t, deletedKinds(kit))
				require.Empty(t, kit.Get(configMapNamed("a")).OwnerReferences())
			}
		})
	}
}

func TestC111_ChildrenOfFinalize(t *testing.T) {
	scenario(t, "C111", "Finalize says which children shall exist meanwhile: the others are deleted, and it is called again as they go")
	var mu sync.Mutex
	var shown []int
	h := handler.Funcs{SyncFunc: ofEach, FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, req.Children.Len())
		kept := []any{}
		for child := range req.Children.OfType(k8s.Secret).All() {
			kept = append(kept, child)
		}
		return &handler.FinalizeResponse{Finalized: req.Children.Len() == len(kept), Children: kept}, nil
	}}
	kit := testkit.New(t, cluster, operator("c111", childrenBy(config.Replace, k8s.ConfigMap, k8s.Secret, k8s.Deployment)...), h)
	kit.Create(parent("one", nil))
	settle(t, kit)
	kit.Delete(parent("one", nil))
	kit.EventuallyGone(parent("one", nil), patience)
	settle(t, kit)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 6, shown[0])
	require.Equal(t, 2, shown[len(shown)-1])
	require.NotContains(t, deletedKinds(kit), "Secret")
	require.Empty(t, kit.HandlerErrors(parent("one", nil)))
}

func TestC112_Retain(t *testing.T) {
	scenario(t, "C112", "Retain: a claim survives its parent without the operator's labels and owner reference, whatever the garbage collector does, and the next parent of that name adopts it as it is")
	needsControllerManager(t)
	for _, teardown := range []config.TeardownPolicy{config.TeardownGC, config.TeardownOrdered} {
		t.Run("teardown"+string(teardown), func(t *testing.T) {
			t.Parallel()
			cfg := operator("c112-"+lower(config.UpdateStrategy("x"+teardown)), childrenBy(config.Replace, k8s.PersistentVolumeClaim, k8s.ConfigMap)...)
			cfg.Teardown = teardown
			cfg.Children[0].Retain, cfg.Children[0].Adopt = true, true
			claim := manifest(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: one, labels: {mine: "yes"}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
			h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Children: []any{claim, configMapNamed("goes")}}, nil
			})
			kit := testkit.New(t, cluster, cfg, h)
			kit.Create(parent("one", nil))
			settle(t, kit)
			before := kit.Get(claim)
			kit.Delete(parent("one", nil))
			kit.EventuallyGone(parent("one", nil), patience)
			kit.EventuallyGone(configMapNamed("goes"), patience) // so the garbage collector has been there, at the latest
			settle(t, kit)
			kept := kit.Get(claim)
			require.NotNil(t, kept)
			require.Equal(t, before.UID(), kept.UID())
			require.False(t, kept.IsDeleting())
			require.Equal(t, map[string]string{"mine": "yes"}, kept.Labels())
			require.Empty(t, kept.OwnerReferences())

			kit.Create(parent("one", nil))
			settle(t, kit)
			require.Empty(t, kit.HandlerErrors(parent("one", nil)))
			require.Equal(t, before.UID(), kit.Get(claim).UID())
			require.Len(t, kit.Get(claim).OwnerReferences(), 1)
			quiet(t, cfg.Name)
		})
	}
}
