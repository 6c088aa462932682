package main

import (
	"context"
	"encoding/json"
	gosync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// A kubelet plays the kubelet for the Pods of a namespace, as far as
// controllers look at it: it gives them the phase that the test has in mind for
// their image and arguments. Pods that the test hasn't spoken of stay Pending.
type kubelet struct {
	client    kubernetes.Interface
	namespace string
	mu        struct {
		gosync.Mutex
		phases map[string]corev1.PodPhase // by what a Pod runs
	}
}

// newKubelet starts one, which works until the test ends.
func newKubelet(t *testing.T, namespace string) *kubelet {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	k := &kubelet{client: client, namespace: namespace}
	k.mu.phases = map[string]corev1.PodPhase{}
	ctx, cancel := context.WithCancel(context.Background())
	var done gosync.WaitGroup
	done.Go(func() { _ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, k.look) }) // ends with ctx
	t.Cleanup(func() { cancel(); done.Wait() })
	return k
}

// gives says which phase Pods get, from now on, whose first container runs this:
// an image and arguments.
func (k *kubelet) gives(phase corev1.PodPhase, runs string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.phases[runs] = phase
}

func (k *kubelet) phaseOf(pod *corev1.Pod) corev1.PodPhase {
	runs := pod.Spec.Containers[0].Image
	for _, arg := range pod.Spec.Containers[0].Args {
		runs += " " + arg
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.phases[runs]
}

// look has a look at all Pods. What fails is tried again at the next look.
func (k *kubelet) look(ctx context.Context) (done bool, err error) {
	pods, err := k.client.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, nil //nolint:nilerr // the next look
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		phase := k.phaseOf(pod)
		if phase == "" || phase == pod.Status.Phase || pod.DeletionTimestamp != nil {
			continue
		}
		ready := corev1.ConditionFalse
		if phase == corev1.PodRunning {
			ready = corev1.ConditionTrue
		}
		patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
			Phase:      phase,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
		}})
		if err != nil {
			return false, err
		}
		_, _ = k.client.CoreV1().Pods(k.namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	return false, nil
}
