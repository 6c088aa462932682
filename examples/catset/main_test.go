package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/testing/kubelet/kubelettest"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine some seconds.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil where Pods can't run

func TestMain(m *testing.M) {
	opts := testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}}
	os.Exit(kubelettest.RunTests(m.Run, opts, func(c *testkit.Cluster) { cluster = c }))
}

// cats returns the CatSet of sample.yaml with other replicas and another image.
func cats(t *testing.T, replicas int, image string) *catSet {
	t.Helper()
	data, err := os.ReadFile("sample.yaml")
	require.NoError(t, err)
	set := &catSet{}
	require.NoError(t, yaml.Unmarshal(data, set))
	set.Spec.Replicas = replicas
	set.Spec.Template.Spec.Containers[0].Image = image
	return set
}

// A catSet is a CatSet that tells its type, as objects of tests must.
type catSet struct {
	metav1.TypeMeta `json:",inline"`
	CatSet          `json:",inline"`
}

// A stage is an operator and what becomes of its Pods.
type stage struct {
	*testkit.Kit
	t *testing.T

	mu struct {
		sync.Mutex
		story []string // "+cats-0", a Pod that was created, "-cats-0", one that has gone, "cats-0", one that has become ready
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if cluster == nil {
		t.Skip("needs a node: kube-controller-manager, kube-scheduler and kwok beside kube-apiserver")
	}
	s := &stage{Kit: testkit.New(t, cluster, operator, catSets), t: t}
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	for i := range 4 {
		addVolume(t, client, corev1.ObjectReference{Namespace: s.Namespace, Name: fmt.Sprint("bowl-cats-", i)})
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := client.CoreV1().Pods(s.Namespace).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		ready := map[string]bool{}
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				s.note(string(event.Type), pod, ready)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

// addVolume creates a volume that one claim can have, and none of other tests on the cluster. It stays with the cluster.
func addVolume(t *testing.T, client kubernetes.Interface, claim corev1.ObjectReference) {
	t.Helper()
	_, err := client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bowl-"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("1Gi")},
			ClaimRef:               &claim,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// note adds to the story. ready has which Pods are.
func (s *stage) note(event string, pod *corev1.Pod, ready map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case event == "ADDED":
		s.mu.story = append(s.mu.story, "+"+pod.Name)
	case event == "DELETED":
		s.mu.story = append(s.mu.story, "-"+pod.Name)
		is = false
	case is && !ready[pod.Name]:
		s.mu.story = append(s.mu.story, pod.Name)
	}
	ready[pod.Name] = is
}

// tells waits until the story goes on like this, and no further.
func (s *stage) tells(want ...string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.mu.story) >= len(want)
	}, timeout, 20*time.Millisecond, "%v", want)
	require.NoError(s.t, s.Settle(timeout))
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(s.t, want, s.mu.story)
	s.mu.story = nil
}

// becomes waits until the CatSet is Ready with this many cats.
func (s *stage) becomes(set *catSet, replicas int) {
	s.t.Helper()
	s.Eventually(map[string]any{
		"apiVersion": parent.APIVersion, "kind": parent.Kind, "metadata": map[string]any{"name": set.Name},
		"status": map[string]any{"replicas": replicas, "readyReplicas": replicas},
	}, timeout)
	require.Eventually(s.t, func() bool {
		live := s.Get(set)
		status, _ := live.Field("status", "conditions")
		observed, _ := live.Field("status", "observedGeneration")
		list, _ := status.([]any)
		first, _ := list[0].(map[string]any)
		return observed == live.Generation() && first["type"] == "Ready" && first["status"] == "True"
	}, timeout, 20*time.Millisecond)
	require.Empty(s.t, s.HandlerErrors(set))
}

// Three cats come one after the other, and a fourth; with another image each gives way to another,
// from the last on; two go, the last first. All the time at most one is missing. In the end all
// go, and the bowls stay.
func TestCats(t *testing.T) {
	s := newStage(t)
	set := cats(t, 3, "example.com/cat:1")
	s.Create(set)
	s.becomes(set, 3)
	s.tells("+cats-0", "cats-0", "+cats-1", "cats-1", "+cats-2", "cats-2")

	s.Update(cats(t, 4, "example.com/cat:1"))
	s.becomes(set, 4)
	s.tells("+cats-3", "cats-3")

	s.Update(cats(t, 4, "example.com/cat:2"))
	s.becomes(set, 4)
	s.tells("-cats-3", "+cats-3", "cats-3", "-cats-2", "+cats-2", "cats-2", "-cats-1", "+cats-1", "cats-1", "-cats-0", "+cats-0", "cats-0")

	bowl := s.claim(3).UID()
	s.Update(cats(t, 2, "example.com/cat:2"))
	s.becomes(set, 2)
	s.tells("-cats-3", "-cats-2")
	require.Equal(t, bowl, s.claim(3).UID(), "the cat is gone, the bowl isn't")

	s.Update(cats(t, 4, "example.com/cat:2"))
	s.becomes(set, 4)
	s.tells("+cats-2", "cats-2", "+cats-3", "cats-3")
	require.Equal(t, bowl, s.claim(3).UID())

	s.Delete(set)
	s.EventuallyGone(set, timeout)
	s.tells("-cats-3", "-cats-2", "-cats-1", "-cats-0")
	for i := range 4 {
		require.Empty(t, s.claim(i).OwnerReferences())
	}
	s.Create(set)
	s.becomes(set, 3)
	require.Equal(t, "cats", s.claim(0).OwnerReferences()[0].Name)
	require.Empty(t, s.claim(3).OwnerReferences())
}

// claim returns the live claim of a cat.
func (s *stage) claim(i int) *resource.Resource {
	s.t.Helper()
	live := s.Get(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("bowl-cats-", i)}})
	require.NotNil(s.t, live)
	return live
}

// A rollout that breaks stops at the last cat, and the next image mends it.
func TestCats_Broken(t *testing.T) {
	s := newStage(t)
	set := cats(t, 3, "example.com/cat:1")
	s.Create(set)
	s.becomes(set, 3)
	s.tells("+cats-0", "cats-0", "+cats-1", "cats-1", "+cats-2", "cats-2")
	s.Update(cats(t, 3, "example.com/cat:broken"))
	s.tells("-cats-2", "+cats-2")
	waits := s.Waits(set)
	require.Len(t, waits, 1)
	require.True(t, strings.HasPrefix(waits[0], "not updating another Pod before Pod cats-2 is there and ready"), waits)
	s.Update(cats(t, 3, "example.com/cat:1"))
	s.becomes(set, 3)
	s.tells("-cats-2", "+cats-2", "cats-2")
}
