package testkit

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
)

func TestRunPods(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-pods"), handler.SyncFunc(children))
	create := func(name, image, node string) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: image}}},
		}
		kit.Create(pod)
		return pod
	}
	status := func(pod *corev1.Pod) (phase corev1.PodPhase, ready corev1.ConditionStatus) {
		var live corev1.Pod
		require.NoError(t, kit.Get(pod).Decode(&live))
		for _, c := range live.Status.Conditions {
			if c.Type == corev1.PodReady {
				ready = c.Status
			}
		}
		return live.Status.Phase, ready
	}
	becomes := func(reason string, pod *corev1.Pod, wantPhase corev1.PodPhase, wantReady corev1.ConditionStatus) {
		t.Helper()
		require.Eventually(t, func() bool {
			phase, ready := status(pod)
			return phase == wantPhase && ready == wantReady
		}, patience, 20*time.Millisecond, reason)
	}
	var broken atomic.Bool
	one, job := create("one", "web", ""), create("job", "job", "")
	left, placed := create("left", "unknown", ""), create("placed", "web", "a-node")
	kit.RunPods(func(pod *corev1.Pod) corev1.PodPhase {
		switch image := pod.Spec.Containers[0].Image; {
		case image == "job":
			return corev1.PodSucceeded
		case image == "web" && broken.Load():
			return corev1.PodFailed
		case image == "web":
			return corev1.PodRunning
		}
		return ""
	})
	becomes("a phase", one, corev1.PodRunning, corev1.ConditionTrue)
	becomes("a Pod that has ended isn't ready", job, corev1.PodSucceeded, corev1.ConditionFalse)
	becomes("a Pod that comes later", create("two", "web", ""), corev1.PodRunning, corev1.ConditionTrue)
	broken.Store(true)
	becomes("another phase", one, corev1.PodFailed, corev1.ConditionFalse)
	becomes("no phase", left, corev1.PodPending, "")
	becomes("a Pod of a node", placed, corev1.PodPending, "")
}

func TestRunPods_All(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-pods-all"), handler.SyncFunc(children))
	pod := pod("example.com/web")
	kit.Create(pod)
	kit.RunPods(nil)
	pod.Status.Phase = corev1.PodRunning
	kit.Eventually(pod, patience)
}
