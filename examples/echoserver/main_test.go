package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine a second.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}, ControllerManager: true}, &cluster)
}

func newKit(t *testing.T) *testkit.Kit {
	t.Helper()
	if cluster == nil {
		t.Skip("needs an API server")
	}
	return testkit.New(t, cluster, operator, echoServers)
}

// sample returns the EchoServer of sample.yaml with another spec, or its own.
func sample(t *testing.T, spec map[string]any) map[string]any {
	t.Helper()
	data, err := os.ReadFile("sample.yaml")
	require.NoError(t, err)
	var echo map[string]any
	require.NoError(t, yaml.Unmarshal(data, &echo))
	if spec != nil {
		echo["spec"] = spec
	}
	return echo
}

func status(text string) map[string]any {
	return map[string]any{
		"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind,
		"metadata": map[string]any{"name": "hello"},
		"status":   map[string]any{"message": text},
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
}

func service(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/name": name},
			Ports:    []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(containerPort)}},
		},
	}
}

func uid(t *testing.T, kit *testkit.Kit, obj any) types.UID {
	t.Helper()
	live := kit.Get(obj)
	require.NotNil(t, live)
	return live.UID()
}

// TestSession runs what README.md shows: the operator as a process, and kubectl.
func TestSession(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which collects garbage")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.Forget(t.Context(), cluster.RESTConfig(), operator.Parent.Kind, "echoservers.example.roperator.com"))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"crd.yaml", "sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

func TestSampleGetsPodServiceAndStatus(t *testing.T) {
	kit := newKit(t)
	echo := sample(t, nil)
	kit.Create(echo)
	kit.EventuallyExists(pod(), timeout)
	kit.Eventually(service("hello-service", 80), timeout)
	kit.Eventually(status("Pod hello is Pending"), timeout)
	require.NoError(t, kit.Settle(timeout))

	running := pod()
	running.Status.Phase = corev1.PodRunning
	kit.UpdateStatus(running) // as the kubelet would
	kit.Eventually(status("Pod hello is Running"), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Empty(t, kit.HandlerErrors(echo))
}

func TestChangeOfPortUpdatesTheService(t *testing.T) {
	kit := newKit(t)
	kit.Create(sample(t, nil))
	kit.Eventually(service("hello-service", 80), timeout)
	require.NoError(t, kit.Settle(timeout))
	podBefore, serviceBefore := uid(t, kit, pod()), uid(t, kit, service("hello-service", 80))

	kit.Update(sample(t, map[string]any{"serviceName": "hello-service", "servicePort": 8080}))
	kit.Eventually(service("hello-service", 8080), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Equal(t, serviceBefore, uid(t, kit, service("hello-service", 8080)))
	require.Equal(t, podBefore, uid(t, kit, pod()))
}

func TestChangeOfNameRecreatesThePod(t *testing.T) {
	kit := newKit(t)
	kit.Create(sample(t, nil))
	kit.EventuallyExists(pod(), timeout)
	require.NoError(t, kit.Settle(timeout))
	before := uid(t, kit, pod())

	kit.Update(sample(t, map[string]any{"serviceName": "other-service"}))
	kit.Eventually(service("other-service", 80), timeout)
	kit.EventuallyGone(service("hello-service", 80), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.NotEqual(t, before, uid(t, kit, pod()))
}

func TestDeletedPodComesBack(t *testing.T) {
	kit := newKit(t)
	kit.Create(sample(t, nil))
	kit.EventuallyExists(pod(), timeout)
	require.NoError(t, kit.Settle(timeout))
	before := uid(t, kit, pod())

	kit.Delete(pod())
	require.NoError(t, kit.Settle(timeout))
	require.NotEqual(t, before, uid(t, kit, pod()))
}

func TestErrorIsToldInTheStatusAndLeavesTheChildren(t *testing.T) {
	kit := newKit(t)
	kit.Create(sample(t, nil))
	kit.EventuallyExists(pod(), timeout)
	require.NoError(t, kit.Settle(timeout))
	before := uid(t, kit, pod())

	bad := sample(t, map[string]any{"serviceName": "Not A Name"})
	kit.Update(bad)
	require.NoError(t, kit.Settle(timeout))
	const said = `spec.serviceName: "Not A Name" can't be a Service's name`
	message, _ := kit.Get(bad).Field("status", "message")
	require.Contains(t, message, said)
	errs := kit.HandlerErrors(bad)
	require.NotEmpty(t, errs, "an error it is all the same")
	require.ErrorContains(t, errs[0], said)
	require.LessOrEqual(t, len(errs), 2, "and isn't retried: at most the write of the status leads to another pass")
	warnings := slices.DeleteFunc(kit.Events(bad), func(e string) bool { return !strings.HasPrefix(e, "Warning ") })
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "SyncFailed")
	require.Contains(t, warnings[0], said)
	require.Equal(t, before, uid(t, kit, pod()))
	kit.Eventually(service("hello-service", 80), timeout)

	kit.Update(sample(t, nil))
	kit.Eventually(status("Pod hello is Pending"), timeout)
}

func TestDeletedEchoServerTakesItsChildrenAlong(t *testing.T) {
	kit := newKit(t)
	if !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which collects garbage")
	}
	echo := sample(t, nil)
	kit.Create(echo)
	kit.EventuallyExists(pod(), timeout)
	kit.EventuallyExists(service("hello-service", 80), timeout)

	kit.Delete(echo)
	kit.EventuallyGone(echo, timeout)
	kit.EventuallyGone(pod(), timeout)
	kit.EventuallyGone(service("hello-service", 80), timeout)
}

func TestSchemaRefuses(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	cases := map[string]struct {
		reason string
		spec   map[string]any
		want   string
	}{
		"NoServiceName": {
			reason: "The Service needs a name.",
			spec:   map[string]any{"servicePort": 80},
			want:   "spec.serviceName: Required value",
		},
		"LongServiceName": {
			reason: "The name of a Service is a DNS label.",
			spec:   map[string]any{"serviceName": "a234567890b234567890c234567890d234567890e234567890f234567890g234"},
			want:   "spec.serviceName: Too long",
		},
		"PortZero": {
			reason: "A Service has no port 0.",
			spec:   map[string]any{"serviceName": "hello", "servicePort": 0},
			want:   "spec.servicePort: Invalid value: 0",
		},
		"PortTooBig": {
			reason: "Ports end at 65535.",
			spec:   map[string]any{"serviceName": "hello", "servicePort": 65536},
			want:   "spec.servicePort: Invalid value: 65536",
		},
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	echoServers := client.Resource(schema.GroupVersionResource{Group: "example.roperator.com", Version: "v1alpha1", Resource: "echoservers"})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data, err := yaml.Marshal(sample(t, tc.spec))
			require.NoError(t, err)
			echo := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal(data, &echo.Object))
			_, err = echoServers.Namespace("default").Create(t.Context(), echo, metav1.CreateOptions{})
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestMessage(t *testing.T) {
	observed := func(metadata, status map[string]any) handler.Children {
		metadata["name"], metadata["namespace"], metadata["uid"], metadata["resourceVersion"] = "hello", "default", "u", "1"
		pod, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
		require.NoError(t, err)
		return handler.NewChildren(pod)
	}
	cases := map[string]struct {
		reason   string
		children handler.Children
		want     string
	}{
		"NoPod": {
			reason:   "The first pass sees no children.",
			children: handler.NewChildren(),
			want:     "Waiting for the Pod to be created",
		},
		"Running": {
			reason:   "The phase is what a user wants to know.",
			children: observed(map[string]any{}, map[string]any{"phase": "Running"}),
			want:     "Pod hello is Running",
		},
		"Evicted": {
			reason:   "The kubelet's own words say more than the phase.",
			children: observed(map[string]any{}, map[string]any{"phase": "Failed", "message": "The node was low on memory."}),
			want:     "Pod hello: The node was low on memory.",
		},
		"Terminating": {
			reason:   "The phase of a Pod that is going away doesn't matter any more.",
			children: observed(map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}, map[string]any{"phase": "Running"}),
			want:     "Pod hello is Terminating",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, message(tc.children), tc.reason)
		})
	}
}
