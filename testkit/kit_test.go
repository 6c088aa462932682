package testkit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// patience only bounds a hang: it is for what takes an idle machine a second.
const patience = 5 * time.Minute

var (
	widgetType        = resource.Type{APIVersion: "testkit.roperator.com/v1", Kind: "Widget"}
	clusterWidgetType = resource.Type{APIVersion: "testkit.roperator.com/v1", Kind: "ClusterWidget"}
)

func widgets(name string) config.Operator {
	return config.Operator{
		Name: name, Parent: widgetType,
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace},
			{Type: k8s.Secret, Strategy: config.Replace},
		},
	}
}

func widget(name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": widgetType.APIVersion, "kind": widgetType.Kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// children wants a ConfigMap with spec.value, and a Secret.
func children(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	if value == "error" {
		return nil, errors.New("no such value")
	}
	name := req.Parent.Name()
	return &handler.SyncResponse{
		Status: map[string]any{"value": value},
		Events: []handler.Event{{Type: corev1.EventTypeWarning, Reason: "Synced", Message: "all is well"}},
		Children: []any{
			configMap(name, map[string]string{"value": fmt.Sprint(value)}),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: nil, Data: map[string][]byte{"password": []byte("hunter2")}},
		},
	}, nil
}

func TestKit(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit"), handler.SyncFunc(children))
	it := widget("one", map[string]any{"value": "a"})
	require.Nil(t, kit.Get(it))
	kit.Create(it)
	require.NotContains(t, it["metadata"], "namespace", "what it is given isn't changed")
	kit.Eventually(configMap("one", map[string]string{"value": "a"}), patience)
	kit.EventuallyExists(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, patience)
	require.NoError(t, kit.Settle(patience))

	it["status"] = map[string]any{"value": "a", "observedGeneration": 1}
	kit.Eventually(it, patience)
	require.Positive(t, kit.Syncs(it))
	require.Zero(t, kit.Finalizes(it))
	require.Empty(t, kit.HandlerErrors(it))
	require.Equal(t, 2, kit.Snapshot(it).Children.Len())
	require.Equal(t, it["metadata"].(map[string]any)["name"], kit.Snapshot(it).Parent.Name())
	require.Contains(t, kit.Events(it), "Warning Synced all is well")
	var writes []string
	for _, w := range kit.Writes() {
		writes = append(writes, w.String())
	}
	ns := kit.Namespace
	require.Equal(t, []string{"create ConfigMap " + ns + "/one", "create Secret " + ns + "/one", "update-status Widget " + ns + "/one"}, writes)

	kit.Update(widget("one", map[string]any{"value": "error"}))
	require.Eventually(t, func() bool { return len(kit.HandlerErrors(it)) > 0 }, patience, 10*time.Millisecond)
	require.ErrorContains(t, kit.HandlerErrors(it)[0], "no such value")

	it = widget("one", map[string]any{"value": "b"})
	kit.Update(it)
	require.Equal(t, "b", field(kit.Snapshot(it).Parent, "spec", "value"), "the snapshot includes what the Kit has written")
	kit.Eventually(configMap("one", map[string]string{"value": "b"}), patience)

	before := kit.Get(configMap("one", nil))
	kit.Delete(before)
	kit.EventuallyGone(before, patience)
	kit.Eventually(configMap("one", map[string]string{"value": "b"}), patience)
	kit.Delete(it)
	kit.EventuallyGone(it, patience)
	require.NoError(t, kit.Settle(patience))
	require.Nil(t, kit.Snapshot(it))
}

func field(r *resource.Resource, path ...string) any {
	value, _ := r.Field(path...)
	return value
}

func TestKitUpdate(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-update"), handler.SyncFunc(nil))
	made := configMap("one", map[string]string{"a": "1", "b": "2"})
	made.Labels = map[string]string{"keep": "1", "change": "1", "remove": "1"}
	made.Finalizers = []string{"example.com/f"}
	kit.Create(made)
	kit.Update(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "one", "labels": map[string]any{"change": "2", "remove": nil}},
		"data":     map[string]any{"b": "3"},
	})
	live := kit.Get(made)
	require.Equal(t, map[string]string{"keep": "1", "change": "2"}, live.Labels())
	require.Equal(t, []string{"example.com/f"}, live.Finalizers())
	require.Equal(t, map[string]any{"b": "3"}, field(live, "data"))

	exact := live.Unstructured()
	exact.SetLabels(nil)
	exact.SetFinalizers(nil)
	kit.Update(exact)
	require.Empty(t, kit.Get(made).Labels())
	require.Empty(t, kit.Get(made).Finalizers())
	failed := fake(t, func(tb testing.TB) {
		k := *kit
		k.t = tb
		k.Update(exact)
	})
	require.Contains(t, failed.failure(), "update ConfigMap "+kit.Namespace+"/one: Operation cannot be fulfilled")

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i"}}},
	}
	kit.Create(pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	kit.UpdateStatus(pod)
	kit.Eventually(pod, patience)
	pod.Status.Phase = corev1.PodFailed
	pod.Spec.Containers[0].Image = "example.com/other"
	kit.Update(pod) // leaves the status
	kit.Eventually(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/other"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}, patience)
}

func TestKitIgnoresTheStatusOfATypedObjectThatSetsNone(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-typed"), handler.SyncFunc(nil))
	labels := map[string]string{"app": "one"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i"}}},
			},
		},
	}
	kit.Create(set)
	played := set.DeepCopy()
	played.Status = appsv1.ReplicaSetStatus{Replicas: 3, ReadyReplicas: 2}
	kit.UpdateStatus(played)
	kit.Eventually(set, patience) // though its zero status encodes as replicas: 0
	require.Empty(t, kit.Writes())
}

func TestKitStatusIsCompared(t *testing.T) {
	t.Parallel()
	failed := fake(t, func(tb testing.TB) {
		kit := New(tb, cluster, widgets("kit-status"), handler.SyncFunc(children))
		it := widget("one", map[string]any{"value": "a"})
		kit.Create(it)
		it["status"] = map[string]any{"value": "a"}
		kit.Eventually(it, patience)
		it["status"] = map[string]any{"value": "b"}
		kit.Eventually(it, time.Second)
	})
	require.Contains(t, failed.failure(), "Widget ")
	require.Contains(t, failed.failure(), "/one isn't as wanted: after 1s\n  status.value: live \"a\", want \"b\"")
}

func TestKitRestart(t *testing.T) {
	t.Parallel()
	cfg := widgets("kit-restart")
	kit := New(t, cluster, cfg, handler.SyncFunc(children))
	kit.Create(widget("one", map[string]any{"value": "a"}))
	kit.Eventually(configMap("one", map[string]string{"value": "a"}), patience)
	require.NoError(t, kit.Settle(patience))
	syncs, writes, passes := kit.Syncs(widget("one", nil)), len(kit.Writes()), kit.Passes()
	require.GreaterOrEqual(t, passes, syncs)

	kit.Stop()
	kit.Stop()
	require.ErrorContains(t, kit.Settle(time.Second), "the operator has stopped")
	require.Len(t, kit.Writes(), writes)

	kit.Restart(cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{}, nil
	}))
	kit.EventuallyGone(configMap("one", nil), patience)
	require.NoError(t, kit.Settle(patience))
	require.Greater(t, kit.Syncs(widget("one", nil)), syncs)
	require.Positive(t, kit.Passes(), "of the new build")
	require.Equal(t, "delete", kit.Writes()[writes].Verb)
}

func TestKitFinalizes(t *testing.T) {
	t.Parallel()
	finalizing := handler.Funcs{
		SyncFunc: children,
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		},
	}
	kit := New(t, cluster, widgets("kit-finalizes"), finalizing)
	it := widget("one", map[string]any{"value": "a"})
	kit.Create(it)
	kit.Eventually(configMap("one", nil), patience)
	require.NotEmpty(t, kit.Get(it).Finalizers(), "the Kit's own wrapper passes on what the engine asks the handler")
	kit.Delete(it)
	kit.EventuallyGone(it, patience)
	require.Equal(t, 1, kit.Finalizes(it))
}

func TestKitWithClusterScopedParents(t *testing.T) {
	t.Parallel()
	cfg := widgets("kit-cluster")
	cfg.Parent = clusterWidgetType
	sync := func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		ns, _ := req.Parent.Field("spec", "namespace")
		child := configMap(req.Parent.Name(), nil)
		child.Namespace = fmt.Sprint(ns)
		return &handler.SyncResponse{Children: []any{child}}, nil
	}
	var names []string
	var kits []*Kit
	t.Run("side by side", func(t *testing.T) {
		for range 2 {
			kit := New(t, cluster, cfg, handler.SyncFunc(sync))
			name := "one-" + kit.Namespace
			it := map[string]any{
				"apiVersion": clusterWidgetType.APIVersion, "kind": clusterWidgetType.Kind,
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"namespace": kit.Namespace},
			}
			kit.Create(it)
			kit.Eventually(configMap(name, nil), patience)
			require.NoError(t, kit.Settle(patience))
			require.Positive(t, kit.Syncs(it))
			names, kits = append(names, name), append(kits, kit)
		}
		require.Zero(t, kits[1].Syncs(map[string]any{
			"apiVersion": clusterWidgetType.APIVersion, "kind": clusterWidgetType.Kind, "metadata": map[string]any{"name": names[0]},
		}), "the other Kit's")
	})
	for i, name := range names {
		k := *kits[i]
		k.t = t
		require.Nil(t, k.Get(map[string]any{
			"apiVersion": clusterWidgetType.APIVersion, "kind": clusterWidgetType.Kind, "metadata": map[string]any{"name": name},
		}), "removed with the test")
		k.EventuallyGone(configMap(name, nil), patience)
	}
}

func TestKitCleansUp(t *testing.T) {
	t.Parallel()
	var kit *Kit
	passed := fake(t, func(tb testing.TB) {
		kit = New(tb, cluster, widgets("kit-cleanup"), handler.Funcs{
			SyncFunc: children,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{}, nil // never
			},
		})
		kit.Create(widget("one", map[string]any{"value": "a"}))
		kit.Eventually(configMap("one", nil), patience)
		kit.Delete(widget("one", nil))
	})
	require.Empty(t, passed.failure())
	require.Contains(t, passed.logged(), "controller=kit-cleanup", "the operator's log is the test's")
	_, err := kit.log.Write([]byte("too late"))
	require.NoError(t, err)
	require.NotContains(t, passed.logged(), "too late")
	require.Empty(t, passed.failure())
	k := *kit
	k.t = t
	k.EventuallyGone(widget("one", nil), patience)
	k.EventuallyGone(configMap("one", nil), patience)
	if cluster.HasControllerManager() {
		k.EventuallyGone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kit.Namespace}}, patience)
	}
}

func TestKitsSideBySide(t *testing.T) {
	t.Parallel()
	first := New(t, cluster, widgets("kit-first"), handler.SyncFunc(nil))
	second := NewWithOptions(t, cluster, widgets("kit-second"), handler.SyncFunc(children), KitOptions{Namespace: first.Namespace})
	require.Equal(t, first.Namespace, second.Namespace)
	it := widget("one", map[string]any{"value": "a"})
	first.Create(it)
	second.Eventually(configMap("one", map[string]string{"value": "a"}), patience)
	require.NoError(t, first.Settle(patience))
	require.Positive(t, first.Syncs(it))
	require.Empty(t, first.Writes())
	require.NotEmpty(t, second.Writes())
}

func TestKitKeepsWhatFailed(t *testing.T) {
	t.Setenv(keepVariable, keepFailed) // so not beside other tests
	other := &Cluster{restConfig: cluster.restConfig, mapper: cluster.mapper, kubeconfig: cluster.kubeconfig, manager: cluster.manager}
	var kit *Kit
	failed := fake(t, func(tb testing.TB) {
		kit = New(tb, other, widgets("kit-keep"), handler.SyncFunc(children))
		kit.Create(widget("one", map[string]any{"value": "a"}))
		kit.Eventually(configMap("one", nil), patience)
		tb.Fatalf("it failed")
	})
	require.True(t, other.keep.Load(), "Stop is told")
	require.Contains(t, failed.logged(), "kubectl --kubeconfig "+cluster.Kubeconfig()+" -n "+kit.Namespace)
	kit.t = t
	require.NotNil(t, kit.Get(widget("one", nil)))
	require.False(t, kit.Get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kit.Namespace}}).IsDeleting())

	passed := fake(t, func(tb testing.TB) { kit = New(tb, other, widgets("kit-keep"), handler.SyncFunc(nil)) })
	require.Empty(t, passed.failure())
	kit.t = t
	left := kit.Get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kit.Namespace}})
	require.True(t, left == nil || left.IsDeleting(), "it didn't fail")
}

func TestKitKeepsNamespaces(t *testing.T) {
	t.Setenv(keepVariable, keepNamespaces) // so not beside other tests
	var kit *Kit
	passed := fake(t, func(tb testing.TB) {
		kit = New(tb, cluster, widgets("kit-namespaces"), handler.SyncFunc(children))
		kit.Create(widget("one", map[string]any{"value": "a"}))
		kit.Eventually(configMap("one", nil), patience)
	})
	require.Empty(t, passed.failure())
	kit.t = t
	kit.EventuallyGone(widget("one", nil), patience)
	kit.EventuallyGone(configMap("one", nil), patience)
	require.False(t, kit.Get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kit.Namespace}}).IsDeleting())
}
