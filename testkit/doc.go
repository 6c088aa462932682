// Package testkit tests operators: what a handler leads to without a cluster,
// and whole operators on a real API server.
//
// Start with Sync, which needs no cluster: it calls the handler once and
// returns what the engine would do then, to be compared with what a test
// expects or with a golden file. Children of kinds that are built into Kubernetes are checked
// by their schemas, so that a typo is found there. Request is for a test that calls the handler
// itself. What the engine meets over time, such as
// defaults, conflicts, other writers and deletion, is for a Kit. Record keeps
// the requests of a live operator, which Replay puts to its next build.
//
// # Operators on an API server
//
// A Cluster is an etcd and a kube-apiserver that live as long as the test
// binary, started once in TestMain. A Kit is one operator on that cluster in a
// namespace of its own, started by a test and torn down with it:
//
//	var cluster *testkit.Cluster
//
//	func TestMain(m *testing.M) {
//		testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}}, &cluster)
//	}
//
//	func TestEchoServerGetsItsPod(t *testing.T) {
//		kit := testkit.New(t, cluster, operator, handler.SyncFunc(sync))
//		echo := map[string]any{
//			"apiVersion": "example.roperator.com/v1alpha1", "kind": "EchoServer",
//			"metadata": map[string]any{"name": "hello"},
//			"spec":     map[string]any{"serviceName": "hello", "servicePort": 80},
//		}
//		kit.Create(echo)
//		kit.Eventually(&corev1.Pod{
//			ObjectMeta: metav1.ObjectMeta{Name: "hello"},
//			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways},
//		}, 10*time.Second)
//		require.NoError(t, kit.Settle(10*time.Second))
//	}
//
// # The control plane
//
// The binaries etcd and kube-apiserver (and kube-controller-manager, for
// ClusterOptions.ControllerManager) are looked for in the folder that
// KUBEBUILDER_ASSETS names; without it in .cache/controlplane beside the
// nearest go.mod, and in /usr/local/kubebuilder/bin. With
// USE_EXISTING_CLUSTER=true nothing is started: the tests run on the cluster
// of the current kubeconfig, in which they create namespaces and, for
// ClusterOptions.CRDPaths, CustomResourceDefinitions.
//
// There are no nodes: Pods are stored, never run. Kit.RunPods plays the kubelet
// for them. Without kube-controller-manager there is no garbage
// collection either: deleting a parent leaves its children.
//
// KUBEBUILDER_CONTROLPLANE_START_TIMEOUT is how long each process may take
// until it answers (a time.Duration, 5m by default). No process outlives the
// test binary, however that ends. On Linux and macOS its folder is removed as well.
//
// # Objects
//
// Wherever a method takes an object, that is a typed pointer such as
// *corev1.Pod (with or without TypeMeta), an apply configuration, a
// map[string]any, an *unstructured.Unstructured or a *resource.Resource. It is
// never changed. An empty namespace of a namespaced type means Kit.Namespace.
// Methods that only identify an object read nothing but its apiVersion, kind,
// namespace and name.
//
// A Kit's methods fail the test by t.Fatal, so they belong on the test's own
// goroutine.
package testkit
