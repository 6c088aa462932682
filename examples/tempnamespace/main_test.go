package main

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine some seconds.
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
	return testkit.New(t, cluster, operator, failable.Wrap(tempNamespaces{}, options))
}

// temp returns a TempNamespace. Its name is the Kit's own, since neither it nor
// its Namespace is in a namespace.
func temp(kit *testkit.Kit, spec map[string]any) map[string]any {
	return object(kit.Namespace+"-temp", spec)
}

func object(name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": parent.APIVersion, "kind": parent.Kind,
		"metadata": map[string]any{"name": name},
		"spec":     spec,
	}
}

func status(kit *testkit.Kit, fields map[string]any) map[string]any {
	expected := temp(kit, nil)
	delete(expected, "spec")
	expected["status"] = fields
	return expected
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestReadme runs what README.md shows: the operator as a process, and kubectl.
func TestReadme(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which empties namespaces")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.Forget(t.Context(), cluster.RESTConfig(), operator.Parent.Kind, "tempnamespaces.example.roperator.com"))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"crd.yaml", "sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

func TestNamespaceLivesItsTime(t *testing.T) {
	kit := newKit(t)
	parent := temp(kit, map[string]any{"namespace": kit.Namespace + "-other", "deleteAfter": "1h"})
	kit.Create(parent)
	other := namespace(kit.Namespace + "-other")
	kit.EventuallyExists(other, timeout)
	kit.Eventually(status(kit, map[string]any{"phase": "Active", "namespace": other.Name}), timeout)
	created := kit.Get(parent).Unstructured().GetCreationTimestamp()
	kit.Eventually(status(kit, map[string]any{"deleteAt": created.Add(time.Hour).UTC().Format(time.RFC3339)}), timeout)
	require.Empty(t, kit.HandlerErrors(parent))

	syncs, writes := kit.Syncs(parent), len(kit.Writes())
	require.Eventually(t, func() bool { return kit.Syncs(parent) > syncs+2 }, timeout, 100*time.Millisecond, "it looks at the clock")
	require.Len(t, kit.Writes(), writes, "which takes no request")

	// What is in the Namespace keeps it from going until it has been looked at.
	kit.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Namespace: other.Name, Finalizers: []string{"example.com/held"}}})
	kit.Update(temp(kit, map[string]any{"namespace": other.Name, "deleteAfter": "1s"}))
	kit.Eventually(status(kit, map[string]any{"phase": "Terminating"}), timeout)
	if !cluster.HasControllerManager() {
		return
	}
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	_, err = client.CoreV1().ConfigMaps(other.Name).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	kit.EventuallyGone(other, timeout)
	kit.Eventually(status(kit, map[string]any{"phase": "Deleted"}), timeout)
}

func TestNamespaceThatWasDeletedComesBack(t *testing.T) {
	kit := newKit(t)
	if !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which empties namespaces")
	}
	parent := temp(kit, map[string]any{"deleteAfter": "1h"})
	kit.Create(parent)
	own := namespace(kit.Namespace + "-temp")
	kit.EventuallyExists(own, timeout)
	kit.Eventually(status(kit, map[string]any{"phase": "Active"}), timeout)
	before, until := kit.Get(own).UID(), deleteAt(t, kit, parent)

	kit.Delete(own)
	require.Eventually(t, func() bool {
		live := kit.Get(own)
		return live != nil && live.UID() != before
	}, timeout, 100*time.Millisecond)
	kit.Eventually(status(kit, map[string]any{"phase": "Active"}), timeout)
	require.Equal(t, until, deleteAt(t, kit, parent), "it doesn't live longer for that")
}

func deleteAt(t *testing.T, kit *testkit.Kit, parent any) any {
	t.Helper()
	at, found := kit.Get(parent).Field("status", "deleteAt")
	require.True(t, found)
	return at
}

func TestReservedNameIsRefused(t *testing.T) {
	kit := newKit(t)
	parent := temp(kit, map[string]any{"namespace": "kube-system", "deleteAfter": "1s"})
	kit.Create(parent)
	kit.Eventually(status(kit, map[string]any{
		"phase":   "ValidationFailed",
		"message": `namespace "kube-system": belongs to Kubernetes; set spec.namespace to another one`,
	}), timeout)
	kit.EventuallyExists(namespace("kube-system"), timeout)
	require.NoError(t, kit.Settle(timeout), "no retry until it is put right")
	require.NotEmpty(t, kit.HandlerErrors(parent))
	for _, write := range kit.Writes() {
		require.NotEqual(t, "Namespace", write.Type.Kind)
	}

	kit.Update(temp(kit, map[string]any{"deleteAfter": "1h"}))
	kit.Eventually(status(kit, map[string]any{"phase": "Active"}), timeout)
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
		"Duration":    {"several units are fine", map[string]any{"deleteAfter": "1h30m"}, ""},
		"Fraction":    {"as is half an hour", map[string]any{"deleteAfter": "0.5h"}, ""},
		"None":        {"there is no default to be surprised by", map[string]any{}, "spec.deleteAfter: Required value"},
		"Number":      {"which unit would that be?", map[string]any{"deleteAfter": 10}, "must be of type string"},
		"NoUnit":      {"which unit would that be?", map[string]any{"deleteAfter": "10"}, "spec.deleteAfter: Invalid value"},
		"Days":        {"Go knows no days", map[string]any{"deleteAfter": "2d"}, "spec.deleteAfter: Invalid value"},
		"Negative":    {"nobody can delete it yesterday", map[string]any{"deleteAfter": "-1h"}, "spec.deleteAfter: Invalid value"},
		"TooShort":    {"not even a second", map[string]any{"deleteAfter": "999ms"}, "must be a duration of at least 1s"},
		"TooLong":     {"more than 292 years don't fit", map[string]any{"deleteAfter": "99999999h"}, "spec.deleteAfter: Invalid value"},
		"EmptyName":   {"leave it out instead", map[string]any{"deleteAfter": "1h", "namespace": ""}, "spec.namespace: Invalid value"},
		"LongName":    {"a Namespace's name is a DNS label", map[string]any{"deleteAfter": "1h", "namespace": fmt.Sprintf("%064d", 1)}, "spec.namespace: Too long"},
		"SpecMissing": {"a TempNamespace without a spec means nothing", nil, "spec: Required value"},
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	gvr := parent.GroupVersionKind().GroupVersion().WithResource("tempnamespaces")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: object("schema", tc.spec)}
			if tc.spec == nil {
				delete(u.Object, "spec")
			}
			u.SetResourceVersion("")
			_, err := client.Resource(gvr).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}

// observed is an object as the engine shows it, created now.
func observed(t *testing.T, obj, metadata map[string]any) *resource.Resource {
	t.Helper()
	all := obj["metadata"].(map[string]any)
	all["uid"], all["resourceVersion"] = "u", "1"
	all["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	maps.Copy(all, metadata)
	r, err := resource.New(obj)
	require.NoError(t, err)
	return r
}

func TestHandler(t *testing.T) {
	live := func(t *testing.T, name string, metadata map[string]any) *resource.Resource {
		return observed(t, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}, metadata)
	}
	deleting := map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}
	cases := map[string]struct {
		reason    string
		name      string
		spec      map[string]any
		age       time.Duration
		namespace func(*testing.T) *resource.Resource
		want      []any
		phase     string
		err       string // "" if there is none
	}{
		"First": {
			reason: "The Namespace has the name of its TempNamespace.",
			name:   "scratch", spec: map[string]any{"deleteAfter": "1m"},
			want: []any{namespace("scratch")}, phase: "Pending",
		},
		"Named": {
			reason: "Unless another one is given.",
			name:   "scratch", spec: map[string]any{"deleteAfter": "1m", "namespace": "other"}, age: time.Second,
			namespace: func(t *testing.T) *resource.Resource { return live(t, "other", nil) },
			want:      []any{namespace("other")}, phase: "Active",
		},
		"LastMoment": {
			reason: "A minute is a minute.",
			name:   "scratch", spec: map[string]any{"deleteAfter": "1m"}, age: time.Minute - 1,
			namespace: func(t *testing.T) *resource.Resource { return live(t, "scratch", nil) },
			want:      []any{namespace("scratch")}, phase: "Active",
		},
		"Up": {
			reason: "Time is up: there shall be none.",
			name:   "scratch", spec: map[string]any{"deleteAfter": "1m"}, age: time.Minute,
			namespace: func(t *testing.T) *resource.Resource { return live(t, "scratch", nil) },
			phase:     "Terminating",
		},
		"Gone": {
			reason: "And there is none.",
			name:   "scratch", spec: map[string]any{"deleteAfter": "1m"}, age: time.Hour,
			phase: "Deleted",
		},
		"DeletedEarly": {
			reason: "Somebody else deletes it: it shall come back.",
			name:   "scratch", spec: map[string]any{"deleteAfter": "1m"}, age: time.Second,
			namespace: func(t *testing.T) *resource.Resource { return live(t, "scratch", deleting) },
			want:      []any{namespace("scratch")}, phase: "Terminating",
		},
		"Dots": {
			reason: "A TempNamespace may have a name that a Namespace can't have.",
			name:   "scratch.example", spec: map[string]any{"deleteAfter": "1m"},
			phase: "ValidationFailed", err: `namespace "scratch.example": can't be a Namespace's name`,
		},
		"Default": {
			reason: "Nobody wants to lose that one.",
			name:   "default", spec: map[string]any{"deleteAfter": "1m"}, age: time.Hour,
			phase: "ValidationFailed", err: `namespace "default": belongs to Kubernetes`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				req := &handler.SyncRequest{Parent: observed(t, object(tc.name, tc.spec), nil)}
				<-time.After(tc.age)
				if tc.namespace != nil {
					req.Children = handler.NewChildren(tc.namespace(t))
				}
				response, err := failable.Wrap(tempNamespaces{}, options).Sync(t.Context(), req)
				require.Equal(t, tc.want, response.Children, tc.reason)
				status := response.Status.(TempNamespaceStatus)
				require.Equal(t, tc.phase, status.Phase, tc.reason)
				if tc.err != "" {
					require.ErrorContains(t, err, tc.err, tc.reason)
					require.Equal(t, err.Error(), status.Message, tc.reason)
					require.Zero(t, response.Resync, "only an edit can help")
					return
				}
				require.NoError(t, err, tc.reason)
				require.Empty(t, status.Message, tc.reason)
				require.Equal(t, options.RegularResync, response.Resync, tc.reason)
			})
		})
	}
}
