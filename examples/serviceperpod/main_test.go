package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine a second.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{ControllerManager: true}, &cluster)
}

func newKit(t *testing.T) *testkit.Kit {
	t.Helper()
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which makes the Pods of StatefulSets")
	}
	return testkit.New(t, cluster, operator, decorator)
}

// sample returns the StatefulSet of sample.yaml with another number of replicas
// and another value of the label.
func sample(t *testing.T, replicas int32, value string) *appsv1.StatefulSet {
	t.Helper()
	data, err := os.ReadFile("sample.yaml")
	require.NoError(t, err)
	var set appsv1.StatefulSet
	require.NoError(t, yaml.UnmarshalStrict(data, &set))
	set.Spec.Replicas = new(replicas)
	set.Labels[label] = value
	return &set
}

// of8080 is the Service of a Pod of sample.yaml.
func of8080(name string) *corev1.Service { return service(name, port("tcp-8080", 8080)) }

func named(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// requireUntouched finds that the operator has written Services alone, and that
// nothing of the StatefulSet is its doing.
func requireUntouched(t *testing.T, kit *testkit.Kit) {
	t.Helper()
	for _, write := range kit.Writes() {
		require.Equal(t, "Service", write.Type.Kind, "%s", write)
	}
	live := kit.Get(sample(t, 0, ""))
	require.Empty(t, live.Finalizers(), "there is nothing to finalize")
	_, annotated := live.Annotation("roperator.com/applied")
	require.False(t, annotated, "a parent has no mark")
	for _, entry := range live.Unstructured().GetManagedFields() {
		require.NotEqual(t, operator.Name, entry.Manager)
	}
	_, found := live.Field("status", "observedGeneration")
	require.True(t, found, "Kubernetes' own controller writes the status")
}

func requireEvent(t *testing.T, kit *testkit.Kit, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(kit.Events(sample(t, 0, "")), func(text string) bool { return strings.HasPrefix(text, want) })
	}, timeout, 50*time.Millisecond, want)
}

// TestReadme runs what README.md shows: the operator as a process, and kubectl.
func TestReadme(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which makes the Pods of StatefulSets")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.ForgetEvents(t.Context(), cluster.RESTConfig(), operator.Parent.Kind))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

func TestServicesComeAndGoWithThePods(t *testing.T) {
	kit := newKit(t)
	kit.Create(sample(t, 2, "true"))
	kit.Eventually(of8080("web-0"), timeout)
	kit.Eventually(of8080("web-1"), timeout)
	require.NoError(t, kit.Settle(timeout))
	kit.EventuallyExists(named("web-1"), timeout)
	first := kit.Get(of8080("web-0")).UID()

	kit.Update(sample(t, 3, "true"))
	kit.Eventually(of8080("web-2"), timeout)
	kit.Update(sample(t, 1, "true"))
	kit.EventuallyGone(of8080("web-1"), timeout)
	kit.EventuallyGone(of8080("web-2"), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Equal(t, first, kit.Get(of8080("web-0")).UID())
	require.Empty(t, kit.HandlerErrors(sample(t, 0, "")))
	requireUntouched(t, kit)
}

func TestPodThatIsMadeAnewKeepsItsService(t *testing.T) {
	kit := newKit(t)
	kit.Create(sample(t, 1, "true"))
	kit.Eventually(of8080("web-0"), timeout)
	require.NoError(t, kit.Settle(timeout))
	before, pod := kit.Get(of8080("web-0")).UID(), kit.Get(named("web-0"))

	kit.Delete(pod)
	kit.EventuallyGone(pod, timeout) // this one; the next has its name
	kit.EventuallyExists(named("web-0"), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Equal(t, before, kit.Get(of8080("web-0")).UID())

	// A new template makes another Pod of that name, with another port.
	changed := sample(t, 1, "true")
	changed.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 9090
	kit.Update(changed)
	kit.Eventually(service("web-0", port("tcp-9090", 9090)), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Equal(t, before, kit.Get(of8080("web-0")).UID())
	requireUntouched(t, kit)
}

func TestLabel(t *testing.T) {
	kit := newKit(t)
	plain := sample(t, 1, "")
	delete(plain.Labels, label)
	kit.Create(plain)
	kit.EventuallyExists(named("web-0"), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Empty(t, kit.Writes(), "a StatefulSet without the label is none of its business")

	kit.Update(sample(t, 1, "true"))
	kit.Eventually(of8080("web-0"), timeout)
	kit.Update(sample(t, 1, "false"))
	kit.EventuallyGone(of8080("web-0"), timeout)
	kit.Update(sample(t, 1, "true"))
	kit.Eventually(of8080("web-0"), timeout)
	require.NoError(t, kit.Settle(timeout))

	writes := len(kit.Writes())
	removed := map[string]any{"name": "web", "labels": map[string]any{label: nil}} // Update merges labels, and null removes one
	kit.Update(map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": removed, "spec": spec(t, plain)})
	require.NoError(t, kit.Settle(timeout))
	require.Len(t, kit.Writes(), writes, "a StatefulSet that loses the label keeps its Services as they are")
	require.NotNil(t, kit.Get(of8080("web-0")))
	require.Empty(t, kit.Get(plain).Finalizers())
}

// spec returns the spec of a StatefulSet as a map.
func spec(t *testing.T, set *appsv1.StatefulSet) map[string]any {
	t.Helper()
	data, err := yaml.Marshal(set.Spec)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, yaml.Unmarshal(data, &out))
	return out
}

func TestEventsTellWhatIsWrong(t *testing.T) {
	kit := newKit(t)
	kit.Create(of8080("web-1")) // somebody else's
	typo := sample(t, 2, "yes")
	kit.Create(typo)
	requireEvent(t, kit, `Warning SyncFailed handler: Sync: label example.roperator.com/service-per-pod: "yes" is neither true nor false`)
	require.NoError(t, kit.Settle(timeout))
	require.Empty(t, kit.Writes())

	kit.Update(sample(t, 2, "true"))
	kit.Eventually(of8080("web-0"), timeout)
	requireEvent(t, kit, "Warning NameConflict ")
	require.Empty(t, kit.Get(of8080("web-1")).OwnerReferences(), "it is left alone")
	kit.Delete(of8080("web-1"))
	kit.Eventually(of8080("web-1"), timeout)
	require.Equal(t, kit.Get(typo).UID(), kit.Get(of8080("web-1")).OwnerReferences()[0].UID)
	requireUntouched(t, kit)
}

func TestPodsWithoutPortsHaveNoService(t *testing.T) {
	kit := newKit(t)
	set := sample(t, 2, "true")
	set.Spec.Template.Spec.Containers[0].Ports = nil
	kit.Create(set)
	requireEvent(t, kit, "Warning NoPorts no container port, so no Service: Pods web-0, web-1")
	require.NoError(t, kit.Settle(timeout))
	require.Empty(t, kit.HandlerErrors(set), "it is no error")
	require.Empty(t, kit.Writes())
}

func TestDeletedStatefulSetTakesItsServicesAlong(t *testing.T) {
	kit := newKit(t)
	set := sample(t, 1, "true")
	kit.Create(set)
	kit.Eventually(of8080("web-0"), timeout)
	require.NoError(t, kit.Settle(timeout))
	kit.Delete(set)
	kit.EventuallyGone(set, timeout)
	kit.EventuallyGone(of8080("web-0"), timeout)
}
