package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/internal/testing/kubelet"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/testkit"
)

// patience only bounds a hang.
const patience = time.Minute

// newCluster returns a cluster without nodes.
func newCluster(t *testing.T) (*testkit.Cluster, kubernetes.Interface) {
	t.Helper()
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		if _, err := plane.Binary(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
	}
	c, err := testkit.Start(testkit.ClusterOptions{ControllerManager: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	return c, client
}

func TestStart(t *testing.T) {
	cluster, client := newCluster(t)
	before := goleak.IgnoreCurrent()
	k, err := kubelet.Start(t.Context(), cluster.Kubeconfig())
	require.NoError(t, err)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 2)
	for name, play := range map[string]func(*testing.T, kubernetes.Interface){
		"PodIsReady": podIsReady, "PodIsBroken": podIsBroken, "JobIsDone": jobIsDone, "JobFails": jobFails,
	} {
		t.Run(name, func(t *testing.T) { play(t, client) })
	}
	require.NoError(t, k.Stop())
	require.NoError(t, k.Stop(), "a second call")
	require.NoError(t, goleak.Find(before))
	k, err = kubelet.Start(t.Context(), cluster.Kubeconfig())
	require.NoError(t, err, "the nodes are left from the first Start")
	require.NoError(t, k.Stop())
}

// A Pod of a node of ours becomes Ready and, deleted, has gone at once, whatever its grace period.
func podIsReady(t *testing.T, client kubernetes.Interface) {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(t.Context(), podOf("ready", "example.com/app"), metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error { return podIs(t.Context(), client, pod.Name, corev1.PodRunning, corev1.ConditionTrue) })
	require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	deleted := time.Now()
	until(t, func() error {
		if _, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
	require.Less(t, time.Since(deleted), 20*time.Second, "its grace period is 30 s")
}

// An image need not end with the word.
func podIsBroken(t *testing.T, client kubernetes.Interface) {
	pod := podOf("broken", "example.com/"+kubelet.Broken+":v1")
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error { return podIs(t.Context(), client, pod.Name, corev1.PodRunning, corev1.ConditionFalse) })
}

func jobIsDone(t *testing.T, client kubernetes.Interface) {
	jobEnds(t, client, "done", "example.com/app", batchv1.JobComplete)
}

func jobFails(t *testing.T, client kubernetes.Interface) {
	jobEnds(t, client, "fails", "example.com/"+kubelet.Fails+":v1", batchv1.JobFailed)
}

// jobEnds requires that a Job with an image ends with a condition.
func jobEnds(t *testing.T, client kubernetes.Interface, name, image string, want batchv1.JobConditionType) {
	t.Helper()
	jobs := client.BatchV1().Jobs(metav1.NamespaceDefault)
	spec := podOf(name, image).Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32), Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error {
		job, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == want && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("no condition %s: %v", want, job.Status)
	})
}

// Nodes of somebody else's cluster aren't played, nor are Pods placed there.
func TestStart_ForeignNodes(t *testing.T) {
	cluster, client := newCluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
	_, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kubelet.Start(t.Context(), cluster.Kubeconfig())
	require.ErrorIs(t, err, kubelet.ErrForeignNodes)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 1, "no node was added")
	for _, c := range nodes.Items[0].Status.Conditions {
		require.NotEqual(t, "KubeletReady", c.Reason)
	}
}

// A node that joins later isn't played either.
func TestStart_ForeignNodeLater(t *testing.T) {
	cluster, client := newCluster(t)
	k, err := kubelet.Start(t.Context(), cluster.Kubeconfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop()) }()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
	_, err = client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	pod := podOf("after", "example.com/app") // by when it is Ready, kwok has seen the node
	_, err = client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error { return podIs(t.Context(), client, pod.Name, corev1.PodRunning, corev1.ConditionTrue) })
	node, err = client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, node.Status.Conditions)
}

// The error names the program that is missing, before anything has changed.
func TestStart_MissingProgram(t *testing.T) {
	cluster, _ := newCluster(t)
	programs := os.Getenv("KUBEBUILDER_ASSETS")
	for _, missing := range []string{"kube-scheduler", "kwok"} {
		t.Run(missing, func(t *testing.T) {
			dir := t.TempDir()
			for _, program := range []string{"kube-scheduler", "kwok"} {
				if program != missing {
					require.NoError(t, os.Symlink(filepath.Join(programs, program), filepath.Join(dir, program)))
				}
			}
			t.Setenv("KUBEBUILDER_ASSETS", dir)
			before := goleak.IgnoreCurrent()
			_, err := kubelet.Start(t.Context(), cluster.Kubeconfig())
			require.ErrorIs(t, err, os.ErrNotExist)
			require.ErrorContains(t, err, missing+":")
			require.NoError(t, goleak.Find(before))
		})
	}
}

// A program that ends at once is noticed at once.
func TestStart_ProgramEnds(t *testing.T) {
	cluster, _ := newCluster(t)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-scheduler"), filepath.Join(dir, "kube-scheduler")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kwok"), []byte("#!/bin/sh\necho out of order\n"), 0o700))
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	started := time.Now()
	_, err := kubelet.Start(t.Context(), cluster.Kubeconfig())
	require.ErrorContains(t, err, "kwok: ended: exit status 0")
	require.ErrorContains(t, err, "out of order")
	require.Less(t, time.Since(started), 30*time.Second, "the timeout of the start is a minute")
}

func until(t *testing.T, f func() error) {
	t.Helper()
	require.NoError(t, plane.Until(t.Context(), patience, f))
}

// podOf returns a Pod with one container.
func podOf(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

// podIs returns nil if a Pod has a phase and a condition Ready with a status.
func podIs(ctx context.Context, client kubernetes.Interface, name string, phase corev1.PodPhase, ready corev1.ConditionStatus) error {
	pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range pod.Status.Conditions {
		if pod.Status.Phase == phase && c.Type == corev1.PodReady && c.Status == ready {
			return nil
		}
	}
	return fmt.Errorf("%s is %v", name, pod.Status)
}
