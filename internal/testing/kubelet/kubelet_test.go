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

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{ControllerManager: true}, &cluster)
}

// A stage is a cluster without nodes, and a namespace of a test's own.
type stage struct {
	cluster   *testkit.Cluster
	client    kubernetes.Interface
	namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		if _, err := plane.Binary(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
	}
	if cluster == nil {
		t.Skip("needs an API server, which -short leaves out")
	}
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubelet-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace.Name, metav1.DeleteOptions{}))
	})
	return &stage{cluster, client, namespace.Name}
}

// addForeign adds a node that isn't a Kubelet's, for the time of the test.
func (s *stage) addForeign(t *testing.T) *corev1.Node {
	t.Helper()
	nodes := s.client.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, nodes.Delete(context.WithoutCancel(t.Context()), node.Name, metav1.DeleteOptions{}))
	})
	return node
}

// nodes returns how many nodes there are.
func (s *stage) nodes(t *testing.T) int {
	t.Helper()
	nodes, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(nodes.Items)
}

func TestStart(t *testing.T) {
	s := newStage(t)
	before := goleak.IgnoreCurrent()
	k, err := kubelet.Start(t.Context(), s.cluster.Kubeconfig())
	require.NoError(t, err)
	require.Equal(t, 2, s.nodes(t))
	for name, play := range map[string]func(*testing.T, *stage){
		"PodIsReady": podIsReady, "PodIsBroken": podIsBroken, "JobIsDone": jobIsDone, "JobFails": jobFails,
	} {
		t.Run(name, func(t *testing.T) { play(t, s) })
	}
	require.NoError(t, k.Stop())
	require.NoError(t, k.Stop(), "a second call")
	require.NoError(t, goleak.Find(before))
	require.Zero(t, s.nodes(t), "a cluster may be another test's, too")
}

// A Pod of a node of ours becomes Ready and, deleted, has gone at once, whatever its grace period.
func podIsReady(t *testing.T, s *stage) {
	pods := s.client.CoreV1().Pods(s.namespace)
	pod, err := pods.Create(t.Context(), podOf("ready", "example.com/app"), metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error { return podIs(t.Context(), s, pod.Name, corev1.PodRunning, corev1.ConditionTrue) })
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
func podIsBroken(t *testing.T, s *stage) {
	pod := podOf("broken", "example.com/"+kubelet.Broken+":v1")
	_, err := s.client.CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error { return podIs(t.Context(), s, pod.Name, corev1.PodRunning, corev1.ConditionFalse) })
}

func jobIsDone(t *testing.T, s *stage) {
	jobEnds(t, s, "done", "example.com/app", batchv1.JobComplete)
}

func jobFails(t *testing.T, s *stage) {
	jobEnds(t, s, "fails", "example.com/"+kubelet.Fails+":v1", batchv1.JobFailed)
}

// jobEnds requires that a Job with an image ends with a condition.
func jobEnds(t *testing.T, s *stage, name, image string, want batchv1.JobConditionType) {
	t.Helper()
	jobs := s.client.BatchV1().Jobs(s.namespace)
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
	s := newStage(t)
	node := s.addForeign(t)
	_, err := kubelet.Start(t.Context(), s.cluster.Kubeconfig())
	require.ErrorIs(t, err, kubelet.ErrForeignNodes)
	require.Equal(t, 1, s.nodes(t), "no node was added")
	node, err = s.client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	require.NoError(t, err)
	for _, c := range node.Status.Conditions {
		require.NotEqual(t, "KubeletReady", c.Reason)
	}
}

// A node that joins later isn't played either.
func TestStart_ForeignNodeLater(t *testing.T) {
	s := newStage(t)
	k, err := kubelet.Start(t.Context(), s.cluster.Kubeconfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop()) }()
	node := s.addForeign(t)
	pod := podOf("after", "example.com/app") // by when it is Ready, kwok has seen the node
	_, err = s.client.CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, func() error { return podIs(t.Context(), s, pod.Name, corev1.PodRunning, corev1.ConditionTrue) })
	node, err = s.client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, node.Status.Conditions)
}

// The error names the program that is missing, before anything has changed.
func TestStart_MissingProgram(t *testing.T) {
	s := newStage(t)
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
			_, err := kubelet.Start(t.Context(), s.cluster.Kubeconfig())
			require.ErrorIs(t, err, os.ErrNotExist)
			require.ErrorContains(t, err, missing+":")
			require.NoError(t, goleak.Find(before))
		})
	}
}

// A program that ends at once is noticed at once.
func TestStart_ProgramEnds(t *testing.T) {
	s := newStage(t)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-scheduler"), filepath.Join(dir, "kube-scheduler")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kwok"), []byte("#!/bin/sh\necho out of order\n"), 0o700))
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	started := time.Now()
	_, err := kubelet.Start(t.Context(), s.cluster.Kubeconfig())
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
func podIs(ctx context.Context, s *stage, name string, phase corev1.PodPhase, ready corev1.ConditionStatus) error {
	pod, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
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
