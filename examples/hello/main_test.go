package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/dynamic"

	v1 "github.com/roperator/roperator/examples/hello/api/v1"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine a second.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"crd"}, ControllerManager: true}, &cluster)
}

func newKit(t *testing.T) *testkit.Kit {
	t.Helper()
	if cluster == nil {
		t.Skip("needs an API server")
	}
	return testkit.New(t, cluster, operator, hellos)
}

func world(replicas int32) *v1.Hello {
	return &v1.Hello{
		TypeMeta:   metav1.TypeMeta{APIVersion: operator.Parent.APIVersion, Kind: operator.Parent.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "world"},
		Spec:       v1.HelloSpec{Replicas: replicas},
	}
}

// says is what a Hello looks like whose status has the message.
func says(message string) map[string]any {
	return map[string]any{
		"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind,
		"metadata": map[string]any{"name": "world"},
		"status":   map[string]any{"message": message},
	}
}

func servers(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "world"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(replicas)},
	}
}

// TestReadme runs what README.md shows: the operator as a process, and kubectl.
func TestReadme(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which runs Deployments and collects garbage")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.Forget(t.Context(), cluster.RESTConfig(), operator.Parent.Kind, "helloes.fraim.co.jp"))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"crd/fraim.co.jp_helloes.yaml", "sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

func TestHelloGetsItsDeployment(t *testing.T) {
	kit := newKit(t)
	hello := world(2)
	kit.Create(hello)
	kit.Eventually(servers(2), timeout)
	kit.Eventually(says("0 of 2 ready"), timeout)
	require.NoError(t, kit.Settle(timeout))
	live := kit.Get(servers(2))
	require.Equal(t, kit.Get(hello).UID(), live.OwnerReferences()[0].UID)

	kit.Update(world(3))
	kit.Eventually(servers(3), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Equal(t, live.UID(), kit.Get(servers(3)).UID(), "it was changed in place")
	require.Empty(t, kit.HandlerErrors(hello))
}

func TestWhatOthersSetStays(t *testing.T) {
	kit := newKit(t)
	kit.Create(world(1))
	kit.Eventually(servers(1), timeout)
	require.NoError(t, kit.Settle(timeout))

	edited := kit.Get(servers(1)).Unstructured()
	edited.SetResourceVersion("") // whatever a controller writes at the same time
	edited.SetAnnotations(map[string]string{"example.com/team": "greeters"})
	require.NoError(t, unstructured.SetNestedField(edited.Object, int64(7), "spec", "replicas"))
	kit.Update(edited)
	expected := servers(1)
	expected.Annotations = map[string]string{"example.com/team": "greeters"}
	kit.Eventually(expected, timeout)
}

func TestTooManyReplicas(t *testing.T) {
	kit := newKit(t)
	hello := world(2)
	kit.Create(hello)
	kit.Eventually(servers(2), timeout)

	kit.Update(world(21))
	kit.Eventually(says("spec.replicas: 21 is too many: at most 20"), timeout)
	require.NoError(t, kit.Settle(timeout))
	kit.Eventually(servers(2), timeout)
	for _, event := range []string{
		"Warning InvalidSpec spec.replicas: 21 is too many: at most 20",               // the handler's own
		"Warning SyncFailed handler: Sync: spec.replicas: 21 is too many: at most 20", // of its error
	} {
		require.Eventually(t, func() bool { return slices.Contains(kit.Events(hello), event) }, timeout, 100*time.Millisecond, event)
	}
	require.ErrorContains(t, kit.HandlerErrors(hello)[0], "spec.replicas: 21 is too many", "an error it is, for metrics and alerts")

	kit.Update(world(20))
	kit.Eventually(servers(20), timeout)
}

func TestDeletedHelloTakesItsDeploymentFirst(t *testing.T) {
	kit := newKit(t)
	hello := world(1)
	kit.Create(hello)
	kit.Eventually(servers(1), timeout)
	require.NoError(t, kit.Settle(timeout))
	require.Contains(t, kit.Get(hello).Finalizers(), "roperator.com/hello")

	kit.Delete(hello)
	kit.EventuallyGone(hello, timeout)
	require.Nil(t, kit.Get(servers(1)), "it was gone before the Hello was")
	require.GreaterOrEqual(t, kit.Finalizes(hello), 2, "once to have it deleted, once when it was gone")
	var did []string
	for _, w := range kit.Writes() {
		if w.Verb == "delete" || w.Verb == "remove finalizer" {
			did = append(did, w.Verb+" "+w.Type.Kind)
		}
	}
	require.Equal(t, "delete Deployment", did[0])
	require.Contains(t, kit.Events(hello), "Normal DeleteRequested 1 Deployments go first")
}

func TestSchemaRefuses(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	cases := map[string]struct {
		reason string
		spec   map[string]any
		want   string // "" if it is accepted
	}{
		"TooMany":  {"that is for the operator to say", map[string]any{"replicas": int64(21)}, ""},
		"Zero":     {"nobody says hello", map[string]any{"replicas": int64(0)}, ""},
		"Negative": {"less than nobody", map[string]any{"replicas": int64(-1)}, "spec.replicas: Invalid value: -1"},
		"None":     {"the operator doesn't guess", map[string]any{}, "spec.replicas: Required value"},
		"Text":     {"two is a word", map[string]any{"replicas": "two"}, "must be of type integer"},
		"Fraction": {"half a server", map[string]any{"replicas": 0.5}, "must be of type integer"},
		"Huge":     {"a Deployment has an int32", map[string]any{"replicas": int64(1) << 31}, "spec.replicas: Invalid value"},
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	helloes := client.Resource(schema.GroupVersionResource{Group: "fraim.co.jp", Version: "v1", Resource: "helloes"})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}
			u.SetGroupVersionKind(operator.Parent.GroupVersionKind())
			u.SetName("schema")
			_, err := helloes.Namespace("default").Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}

// request is what the engine shows.
func request(t *testing.T, hello *v1.Hello, children ...any) *handler.SyncRequest {
	t.Helper()
	hello.Namespace, hello.UID, hello.ResourceVersion = "default", "u", "1"
	parent, err := resource.New(hello)
	require.NoError(t, err)
	observed := make([]*resource.Resource, len(children))
	for i, child := range children {
		observed[i], err = resource.New(child)
		require.NoError(t, err)
	}
	return &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(observed...)}
}

// withType returns a Deployment as it is observed.
func withType(d *appsv1.Deployment) *appsv1.Deployment {
	d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	d.Namespace, d.UID, d.ResourceVersion = "default", "d", "1"
	return d
}

func TestSync(t *testing.T) {
	live := func(replicas, ready int32) *appsv1.Deployment {
		d := withType(servers(replicas))
		d.Status = appsv1.DeploymentStatus{Replicas: replicas, ReadyReplicas: ready}
		return d
	}
	cases := map[string]struct {
		reason   string
		replicas int32
		children []any
		status   v1.HelloStatus
		invalid  bool
	}{
		"First": {
			"There is no Deployment yet.",
			2, nil, v1.HelloStatus{Message: "waiting for the Deployment to be created"}, false,
		},
		"Ready": {
			"What the Deployment says is what a user wants to know.",
			3, []any{live(2, 1)}, v1.HelloStatus{Replicas: 2, Message: "1 of 2 ready"}, false,
		},
		"AtMost": {
			"The limit is allowed.",
			20, nil, v1.HelloStatus{Message: "waiting for the Deployment to be created"}, false,
		},
		"TooMany": {
			"What there is stays, and its count is told.",
			21, []any{live(2, 2)}, v1.HelloStatus{Replicas: 2, Message: "spec.replicas: 21 is too many: at most 20"}, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response, err := hellos.Sync(t.Context(), request(t, world(tc.replicas), tc.children...))
			require.Equal(t, tc.status, response.Status, tc.reason)
			if tc.invalid {
				require.EqualError(t, err, tc.status.Message, tc.reason)
				require.Equal(t, []handler.Event{{Type: corev1.EventTypeWarning, Reason: "InvalidSpec", Message: tc.status.Message}}, response.Events)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Empty(t, response.Events, tc.reason)
			require.Len(t, response.Children, 1)
			child := response.Children[0].(*applyappsv1.DeploymentApplyConfiguration)
			require.Equal(t, tc.replicas, *child.Spec.Replicas, tc.reason)
			require.Equal(t, child.Spec.Selector.MatchLabels, child.Spec.Template.Labels, "or the API server refuses it")
		})
	}
}

func TestFinalize(t *testing.T) {
	going := world(1)
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	testkit.Sync(t, operator, hellos, going, servers(1)).WantDelete(servers(1))
	testkit.Sync(t, operator, hellos, going).WantDelete(going) // it is let go

	response, err := hellos.Finalize(t.Context(), request(t, world(1), withType(servers(1))))
	require.NoError(t, err)
	require.False(t, response.Finalized, "the Deployment is there")
	require.Equal(t, []handler.Event{{Reason: "DeleteRequested", Message: "1 Deployments go first"}}, response.Events)
	require.True(t, handler.Finalizes(hellos), "or there is no finalizer")
}
