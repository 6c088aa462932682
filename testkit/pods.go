package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// RunPods plays the kubelet for the Pods in the Kit's namespace until the test ends. No program
// runs: a Pod only gets the status of one that does. The function returns the phase that a Pod has
// from now on, or "" to leave the Pod as it is; a nil function returns PodRunning for every Pod. The
// condition Ready is True while the phase is PodRunning, and False otherwise.
//
// The function is called again and again for each Pod, from one goroutine that is not the test's, so
// that a later call may return another phase. Pods that are being deleted, and Pods that have a
// node, are left alone. On a cluster without kube-controller-manager no Deployment or Job makes
// Pods: see [ClusterOptions].
func (k *Kit) RunPods(phase func(pod *corev1.Pod) corev1.PodPhase) {
	k.t.Helper()
	if phase == nil {
		phase = func(*corev1.Pod) corev1.PodPhase { return corev1.PodRunning }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { // ends with ctx
		last := "" // error that was logged
		_ = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			if err := k.runPods(ctx, phase); err != nil && err.Error() != last && ctx.Err() == nil {
				last = err.Error()
				k.t.Logf("testkit: RunPods: %v; it tries again", err)
			}
			return false, nil
		})
	})
	k.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// runPods gives each Pod its phase.
func (k *Kit) runPods(ctx context.Context, phase func(*corev1.Pod) corev1.PodPhase) error {
	pods, err := k.clients.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("Pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" {
			continue
		}
		want := phase(pod)
		if want == "" || want == pod.Status.Phase && hasReadiness(pod, readiness(want)) {
			continue
		}
		if err := k.setPhase(ctx, pod, want); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("Pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

func (k *Kit) setPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase:      phase,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: readiness(phase), LastTransitionTime: metav1.Now()}},
	}})
	if err != nil {
		return err
	}
	_, err = k.clients.CoreV1().Pods(k.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func readiness(phase corev1.PodPhase) corev1.ConditionStatus {
	if phase == corev1.PodRunning {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func hasReadiness(pod *corev1.Pod, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == status
		}
	}
	return false
}
