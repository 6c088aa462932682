package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// vandal answers every change of a ConfigMap with a patch, as long as that
// changes something, until it is stopped.
func vandal(t *testing.T, s *stage, name, patch string, done func(*corev1.ConfigMap) bool) (stop func()) {
	t.Helper()
	typed, _ := clients(t, "vandal")
	ctx, cancel := context.WithCancel(t.Context())
	api := typed.CoreV1().ConfigMaps(s.Namespace)
	w, err := api.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for event := range w.ResultChan() {
			if cm, ok := event.Object.(*corev1.ConfigMap); ok && !done(cm) {
				_, _ = api.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}) // it comes again
			}
		}
	})
	return func() {
		cancel()
		w.Stop()
		wg.Wait()
	}
}

func TestC214_WhatTheEngineSetsIsTakenOffAgainAndAgain(t *testing.T) {
	scenario(t, "C214", "labels, owner reference or mark taken off again and again are a conflict loop")
	for name, tc := range map[string]struct {
		patch string
		done  func(*corev1.ConfigMap) bool
		field string
	}{
		"label": {`{"metadata":{"labels":{"roperator.com/parent-uid":null}}}`, func(cm *corev1.ConfigMap) bool {
			return cm.Labels["roperator.com/parent-uid"] == ""
		}, "metadata.labels"},
		"owner": {`{"metadata":{"ownerReferences":null}}`, func(cm *corev1.ConfigMap) bool { return len(cm.OwnerReferences) == 0 }, "metadata.ownerReferences"},
		"mark": {`{"metadata":{"annotations":{"roperator.com/applied":null}}}`, func(cm *corev1.ConfigMap) bool {
			return cm.Annotations["roperator.com/applied"] == ""
		}, "roperator.com/applied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness()
			s := newStageWith(t, unbounded(operator("vandal-"+name, configMapChild())), w.options())
			s.want(configMap("child", "k", "v"))
			stop := vandal(t, s, "child", tc.patch, tc.done)
			defer stop()
			patchMeta(t, s.Namespace, "child", `{"annotations":{"example.com/begin":"yes"}}`)
			eventually(t, "an Event", func() bool { return anyContains(s.Events(parent("one", nil)), "Warning", "ConflictLoop", tc.field) })
			slow(t, func() int { return len(verbs(s.Writes(), "ConfigMap", "child")) })
			stop()
			eventually(t, "it is as it should be", func() bool {
				live := s.Get(configMap("child", "", ""))
				label, _ := live.Label("roperator.com/parent-uid")
				return label != "" && len(live.OwnerReferences()) == 1 && live.Annotations()["roperator.com/applied"] != ""
			})
		})
	}
}

func TestC215_BehindAController(t *testing.T) {
	scenario(t, "C215", "a loop behind a controller that answers every write is throttled")
	needsControllerManager(t)
	// The Deployment controller answers every write with a status: that is
	// nobody's change, and doesn't excuse the next write.
	w := newWitness()
	s := newStageWith(t, unbounded(operator("loop-deployment", config.Child{Type: k8s.Deployment, Strategy: config.Replace})), w.options())
	var calls atomic.Int64
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		d := typedDeployment()
		d.Annotations = map[string]string{"example.com/now": fmt.Sprint(calls.Add(1))}
		if live, ok := req.Children.Find(d); ok {
			seen, _ := live.Field("status", "observedGeneration")
			d.Spec.Template.Annotations = map[string]string{"example.com/seen": fmt.Sprint(seen)}
		}
		return &handler.SyncResponse{Children: []any{d}}
	})
	eventually(t, "an Event", func() bool { return anyContains(s.Events(parent("one", nil)), "Warning", "ConflictLoop") })
	slow(t, func() int { return len(verbs(s.Writes(), "Deployment", "typed")) })
}

func TestC216_OthersAreNotSlowedDown(t *testing.T) {
	scenario(t, "C216", "a parent in a loop slows down no other")
	var calls atomic.Int64
	cfg := unbounded(operator("loop-alone", configMapChild()))
	cfg.MaxConcurrentSyncs = 1
	s := newStageWith(t, cfg, newWitness().options())
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		if req.Parent.Name() == "one" {
			return &handler.SyncResponse{Status: map[string]any{"tick": calls.Add(1)}}
		}
		data, _ := req.Parent.Field("spec", "v")
		return &handler.SyncResponse{Children: []any{configMap(req.Parent.Name(), "k", fmt.Sprint(data))}}
	})
	eventually(t, "the loop is found", func() bool { return anyContains(s.Events(parent("one", nil)), "ConflictLoop", "status.tick") })
	// Each would wait for one more of the loop's passes, which become rare.
	const others = 10
	before := calls.Load()
	for i := range others {
		name := fmt.Sprintf("p%d", i)
		s.Create(parent(name, map[string]any{"v": i}))
		s.Eventually(configMap(name, "k", fmt.Sprint(i)), patience)
	}
	require.Less(t, calls.Load()-before, int64(others), "none has waited for the loop")
}

func TestC217_ManyChangesByHandAreNone(t *testing.T) {
	scenario(t, "C217", "twenty changes of a parent are no loop")
	// A user who changes the parent twenty times gets what they ask for, each
	// time.
	w := newWitness()
	kit := testkit.NewWithOptions(t, cluster, unbounded(operator("no-loop", configMapChild())), handler.SyncFunc(fleet), w.options())
	kit.Create(parent("one", map[string]any{"count": 1, "value": "first"}))
	for i := range 20 {
		kit.Update(parent("one", map[string]any{"count": 1 + i%3, "value": i}))
		kit.Eventually(configMap("one-0", "k", fmt.Sprint(i)), patience)
	}
	settle(t, kit)
	require.NotContains(t, w.logged(), "conflict loop")
}

func TestC218_FollowersOfAChildAreNone(t *testing.T) {
	scenario(t, "C218", "a child that follows others is no loop")
	// A ConfigMap lists the Pods that are Ready: it changes with each of them.
	s := newStageWith(t, unbounded(operator("no-loop-pods", config.Child{Type: k8s.Pod, Strategy: config.Recreate}, configMapChild())), newWitness().options())
	var pods []any
	for i := range 12 {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%02d", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
		})
	}
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		var ready []string
		for pod := range req.Children.OfType(k8s.Pod).All() {
			if phase, _ := pod.Field("status", "phase"); phase == "Running" {
				ready = append(ready, pod.Name())
			}
		}
		return &handler.SyncResponse{
			Children: append(slices.Clone(pods), configMap("ready", "pods", strings.Join(ready, ","))),
			Status:   map[string]any{"ready": len(ready)},
		}
	})
	settle(t, s.Kit)
	for i := range 12 {
		s.UpdateStatus(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%02d", i)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
		want := fmt.Sprintf("pod-%02d", i)
		eventually(t, "the list follows", func() bool {
			list, _ := s.Get(configMap("ready", "", "")).Field("data", "pods")
			return strings.HasSuffix(fmt.Sprint(list), want)
		})
	}
	settle(t, s.Kit)
	require.False(t, anyContains(s.Events(parent("one", nil)), "ConflictLoop"))
}

func TestC219_RolloutStepByStepIsNone(t *testing.T) {
	scenario(t, "C219", "a rollout in steps that wait for a status is no loop")
	// A rollout whose next step waits for the status of the last one, which
	// comes at once.
	s := newStageWith(t, unbounded(operator("no-loop-rollout", config.Child{Type: k8s.Pod, Strategy: config.Replace})), newWitness().options())
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "roll", Annotations: map[string]string{"example.com/step": ""}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
		}
	}
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		next := pod()
		if live, ok := req.Children.Find(next); ok {
			step, _ := live.Field("status", "message")
			next.Annotations["example.com/step"] = fmt.Sprint(step)
		}
		return &handler.SyncResponse{Children: []any{next}, Status: map[string]any{"step": next.Annotations["example.com/step"]}}
	})
	settle(t, s.Kit)
	for i := range 12 {
		step := fmt.Sprintf("step-%d", i)
		at := pod()
		at.Status.Message = step
		s.UpdateStatus(at)
		eventually(t, "the next step", func() bool { return s.Get(pod()).Annotations()["example.com/step"] == step })
	}
	require.False(t, anyContains(s.Events(parent("one", nil)), "ConflictLoop"))
}
