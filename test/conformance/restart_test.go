package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
)

func TestC71_ControlPlaneRestarts(t *testing.T) {
	scenario(t, "C71", "the API server is killed and etcd compacted under stopped watches, again and again: converges, nothing lost, nothing twice")
	const parents = 30
	p := newPlane(t)
	typed, err := kubernetes.NewForConfig(p.config())
	require.NoError(t, err)
	untyped, err := dynamic.NewForConfig(p.config())
	require.NoError(t, err)
	api := untyped.Resource(schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: "parents"}).Namespace("default")
	maps := typed.CoreV1().ConfigMaps("default")
	set := func(name, value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"data":{"k":%q}}}`, value)
		_, err := api.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	create := func(name, value string) {
		t.Helper()
		_, err := api.Create(t.Context(), &unstructured.Unstructured{Object: parent(name, withData("k", value))}, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	cfg := p.config()
	var mu sync.Mutex
	finalized := map[string]int{}
	op := operator("c71", configMapChild())
	op.Namespaces = []string{"default"}
	h := handler.Funcs{SyncFunc: copier, FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		finalized[req.Parent.Name()]++
		return &handler.FinalizeResponse{Finalized: true}, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var running atomic.Pointer[runner.Runner]
	go func() { // until cancel
		ended <- insist(func() error {
			r, err := runner.New(op, h, runner.Options{RESTConfig: cfg, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			running.Store(r)
			return r.Start(ctx)
		})
	}()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	orphans := map[string]bool{} // there is no garbage collector here
	// converged waits until each of these ConfigMaps says this, and there is no other.
	converged := func(want map[string]string) map[string]corev1.ConfigMap {
		t.Helper()
		found := map[string]corev1.ConfigMap{}
		eventually(t, "the children are as desired", func() bool {
			list, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: "roperator.com/operator=c71"})
			if err != nil {
				return false
			}
			clear(found)
			for _, cm := range list.Items {
				if value, ok := want[cm.Name]; ok && cm.Data["k"] != value || !ok && !orphans[cm.Name] {
					return false
				}
				found[cm.Name] = cm
			}
			for name := range want {
				if _, ok := found[name]; !ok {
					return false
				}
			}
			return true
		})
		return found
	}
	want := map[string]string{}
	for i := range parents {
		name := fmt.Sprint("p", i)
		create(name, "v")
		want[name] = "v"
	}
	before := converged(want)
	for round := range 2 {
		p.plane.Server.Kill()
		if round == 1 {
			p.plane.Etcd.Kill()
			p.startEtcd()
		}
		p.startServer()
		eventually(t, "the operator knows that its watches are back", func() bool { return running.Load().Ready() == nil })
		value := fmt.Sprint("v", round)
		set("p0", value)
		want["p0"] = value
		converged(want)

		// What happens while it can't watch: another operator's host is down, say.
		gate := p.plane.ServerPort
		p.plane.Server.Kill()
		p.plane.ServerPort = freePort(t)
		p.startServer() // where the operator doesn't look
		elsewhere, err := dynamic.NewForConfig(p.config())
		require.NoError(t, err)
		there := elsewhere.Resource(schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: "parents"}).Namespace("default")
		name := fmt.Sprint("new", round)
		_, err = there.Create(t.Context(), &unstructured.Unstructured{Object: parent(name, withData("k", value))}, metav1.CreateOptions{})
		require.NoError(t, err)
		want[name] = value
		gone := fmt.Sprint("p", 10+round)
		require.NoError(t, there.Delete(t.Context(), gone, metav1.DeleteOptions{})) // which waits for its finalizer
		lost := fmt.Sprint("p", 20+round)
		others, err := kubernetes.NewForConfig(p.config())
		require.NoError(t, err)
		require.NoError(t, others.CoreV1().ConfigMaps("default").Delete(t.Context(), lost, metav1.DeleteOptions{}))
		delete(want, gone)
		orphans[gone] = true
		p.compact()
		p.plane.Server.Kill()
		p.plane.ServerPort = gate
		p.startServer()
		now := converged(want)
		require.NotEqual(t, before[lost].UID, now[lost].UID, "created anew")
		require.Equal(t, before["p5"].UID, now["p5"].UID, "never touched")
		require.Equal(t, before["p5"].ResourceVersion, now["p5"].ResourceVersion, "never touched")
		eventually(t, gone+" has gone", func() bool {
			_, err := api.Get(t.Context(), gone, metav1.GetOptions{})
			return err != nil
		})
		mu.Lock()
		require.Equal(t, 1, finalized[gone])
		mu.Unlock()
	}
	eventually(t, "every watch is back", func() bool { return running.Load().Ready() == nil }) // some retry at longer intervals
}
