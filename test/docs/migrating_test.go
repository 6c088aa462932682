package docs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// generous only bounds a hang: it is for what takes an idle machine a second.
const generous = 5 * time.Minute

// testMigrating plays operators of other frameworks, and has one of this
// library take over what docs/migrating says it takes over.
func testMigrating(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	operator := config.Operator{
		Name:     "caches",
		Parent:   resource.Type{APIVersion: "guide.example.com/v1", Kind: "Cache"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	former := operator
	former.TrackingLabel, former.OwnershipLabel = "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"
	former.FormerFinalizers = []string{"guide.example.com/former"}
	adopting := operator
	adopting.Children = []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: true}}

	cases := map[string]struct {
		reason     string
		operator   config.Operator
		labelled   bool // by roperator for Rust
		controlled bool
		taken      bool // is what is wanted there taken over?
		found      bool // is what isn't wanted any more found, and deleted?
	}{
		"Rust":          {"With the old labels every child is found.", former, true, true, true, true},
		"Controller":    {"Another operator's, unless it may be adopted.", operator, false, true, false, false},
		"NoController":  {"Anybody's, unless it may be adopted.", operator, false, false, false, false},
		"MayBeAdopted":  {"It may.", adopting, false, false, true, false},
		"Both":          {"Those that the parent controls are found, whatever their names.", adopting, false, true, true, true},
		"RustNewLabels": {"Then as any other.", operator, true, true, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kit := testkit.New(t, cluster, operator, handler.SyncFunc(nil))
			kit.Stop()
			parent := map[string]any{
				"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind,
				"metadata": map[string]any{"name": "a", "finalizers": []any{"guide.example.com/former"}}, "spec": map[string]any{},
			}
			kit.Create(parent)
			owner := kit.Get(parent)
			child := func(name string) *corev1.ConfigMap {
				c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"their": "value"}}
				if tc.labelled {
					c.Labels = map[string]string{"app.kubernetes.io/instance": string(owner.UID()), "app.kubernetes.io/managed-by": "caches"}
				}
				if tc.controlled {
					c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "a", UID: owner.UID()}, operator.Parent.GroupVersionKind())}
				}
				return c
			}
			kit.Create(child("wanted"))
			kit.Create(child("unwanted"))
			before := kit.Get(child("wanted")).UID()

			kit.Restart(tc.operator, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Children: []any{
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "wanted"}, Data: map[string]string{"our": "value"}},
				}}, nil
			}))
			if !tc.taken {
				require.Eventually(t, func() bool { return len(kit.HandlerErrors(parent)) > 0 }, generous, 100*time.Millisecond)
				require.ErrorContains(t, kit.HandlerErrors(parent)[0], "already exists and is not managed by caches", tc.reason)
				return
			}
			both := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "wanted"}, Data: map[string]string{"our": "value", "their": "value"}}
			kit.Eventually(both, generous)
			require.NoError(t, kit.Settle(generous))
			require.Equal(t, before, kit.Get(both).UID(), tc.reason)
			require.Equal(t, tc.found, kit.Get(child("unwanted")) == nil, tc.reason)
			require.Equal(t, len(tc.operator.FormerFinalizers) > 0, len(kit.Get(parent).Finalizers()) == 0, "the former finalizer")
			if !tc.labelled {
				return
			}
			require.Equal(t, "caches", kit.Get(both).Labels()["app.kubernetes.io/managed-by"])
		})
	}
}

// testFinalizeHook finds what becomes of the children that a Finalize returns, other than in
// Metacontroller: those that are there stay as they are, and none is made.
func testFinalizeHook(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	named := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	}
	operator := config.Operator{
		Name:     "caches",
		Parent:   resource.Type{APIVersion: "guide.example.com/v1", Kind: "Cache"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	let := make(chan struct{})
	kit := testkit.New(t, cluster, operator, handler.Funcs{
		SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{named("stays", "sync"), named("goes", "sync")}}, nil
		},
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			select {
			case <-let:
				return &handler.FinalizeResponse{Finalized: true}, nil
			default:
				return &handler.FinalizeResponse{Retry: 50 * time.Millisecond, Children: []any{named("stays", "finalize"), named("new", "finalize")}}, nil
			}
		},
	})
	parent := map[string]any{"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{}}
	kit.Create(parent)
	kit.EventuallyExists(named("goes", ""), generous)
	require.NoError(t, kit.Settle(generous))
	kit.Delete(parent)
	kit.EventuallyGone(named("goes", ""), generous)
	called := kit.Finalizes(parent)
	require.Eventually(t, func() bool { return kit.Finalizes(parent) > called+1 }, generous, 10*time.Millisecond, "it is called again as they go")
	stays := kit.Get(named("stays", ""))
	require.NotNil(t, stays)
	value, _ := stays.Field("data", "value")
	require.Equal(t, "sync", value, "nothing is changed")
	require.Nil(t, kit.Get(named("new", "")), "nothing is created")
	close(let)
	kit.EventuallyGone(parent, generous)
}

// testErrorKeepsAll finds what docs/migrating says has stayed as it was.
func testErrorKeepsAll(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	operator := config.Operator{
		Name:     "caches",
		Parent:   resource.Type{APIVersion: "guide.example.com/v1", Kind: "Cache"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
	kit := testkit.NewWithOptions(t, cluster, operator, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if replicas, _ := req.Parent.Field("spec", "replicas"); replicas == int64(9) || replicas == float64(9) {
			return nil, errors.New("no idea")
		}
		return &handler.SyncResponse{Status: map[string]any{"ready": 3}, Children: []any{child}}, nil
	}), testkit.KitOptions{AllowHandlerErrors: true})
	parent := func(replicas int) map[string]any {
		return map[string]any{"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"replicas": replicas}}
	}
	kit.Create(parent(1))
	require.NoError(t, kit.Settle(generous))
	status, _ := kit.Get(parent(1)).Field("status")
	require.Equal(t, map[string]any{"ready": int64(3), "observedGeneration": int64(1)}, integers(status), "observedGeneration is added")
	uid := kit.Get(child).UID()

	kit.Update(parent(9))
	require.Eventually(t, func() bool { return len(kit.HandlerErrors(parent(9))) > 1 }, generous, 10*time.Millisecond, "the call is repeated")
	status, _ = kit.Get(parent(9)).Field("status")
	require.Equal(t, map[string]any{"ready": int64(3), "observedGeneration": int64(1)}, integers(status), "the status stays")
	require.Equal(t, uid, kit.Get(child).UID(), "the child stays")
}

// integers returns a status of numbers with all of them as int64.
func integers(status any) map[string]any {
	out := map[string]any{}
	for name, value := range status.(map[string]any) {
		if f, ok := value.(float64); ok {
			value = int64(f)
		}
		out[name] = value
	}
	return out
}
