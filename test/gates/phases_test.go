package gates

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/internal/testing/operatorproc"
)

// A phase is a part of a round.
type phase struct {
	name   string
	starts bool       // the operator starts, or starts again
	empty  bool       // there are no parents yet: it isn't in the table
	events [types]int // that the test causes, for each parent
	batch  int        // how many of these the operator learns at once, 0: all
	// do is what the test does before it; nil: nothing.
	do func(ctx context.Context, w *world) error
}

// The phases in which an operator can be made to do more, and the one that is subtracted from starts.
const (
	emptyStart = "start"
	specPhase  = "spec"
	editPhase  = "edited"
)

// phases returns those of a round, in their order. What a process does only once belongs to the first.
func phases() []phase {
	return []phase{
		{name: "first start", starts: true, empty: true},
		{name: emptyStart, starts: true, empty: true},
		{name: "cold", starts: true, do: func(ctx context.Context, w *world) error { return w.populate(ctx) }},
		{name: specPhase, events: [types]int{parents: 1}, do: func(ctx context.Context, w *world) error {
			return w.patch(ctx, parents, `{"spec":{"value":"second"}}`)
		}},
		{name: "deleted", batch: 24, events: [types]int{configMaps: 1}, do: func(ctx context.Context, w *world) error { return w.deleteChildren(ctx) }},
		{name: editPhase, events: [types]int{configMaps: 1}, do: func(ctx context.Context, w *world) error {
			return w.patch(ctx, configMaps, `{"data":{"value":"foreign"}}`)
		}},
		{name: "restart", starts: true},
	}
}

// totals are what the operator has done since the start of its process.
type totals struct {
	Allocations, Bytes               uint64
	Reconciliations, Calls, Requests uint64
}

func (t totals) minus(o totals) totals {
	return totals{t.Allocations - o.Allocations, t.Bytes - o.Bytes, t.Reconciliations - o.Reconciliations, t.Calls - o.Calls, t.Requests - o.Requests}
}

// A world is the namespace of a round.
type world struct {
	client    dynamic.Interface
	namespace string
}

func gvrs() [types]schema.GroupVersionResource {
	out := [types]schema.GroupVersionResource{parents: {Group: "gates.example.com", Version: "v1", Resource: "sites"}}
	for i, plural := range plurals() {
		if i != parents {
			out[i] = schema.GroupVersionResource{Version: "v1", Resource: plural}
		}
	}
	return out
}

func nameOf(i int) string { return fmt.Sprintf("site-%04d", i) }

// each calls do for each parent.
func (w *world) each(ctx context.Context, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range parentCount {
		group.Go(func() error { return do(ctx, nameOf(i)) })
	}
	return group.Wait()
}

func (w *world) in(of int) dynamic.ResourceInterface {
	return w.client.Resource(gvrs()[of]).Namespace(w.namespace)
}

func (w *world) populate(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, name string) error {
		_, err := w.in(parents).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gates.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": name}, "spec": map[string]any{"value": "first"},
		}}, metav1.CreateOptions{})
		return err
	})
}

func (w *world) patch(ctx context.Context, of int, body string) error {
	return w.each(ctx, func(ctx context.Context, name string) error {
		_, err := w.in(of).Patch(ctx, name, k8stypes.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	})
}

func (w *world) deleteChildren(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, name string) error {
		return w.in(configMaps).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// A round is the totals of each phase, by its name.
type round map[string]totals

// A plant makes an operator do more than it should. The zero value: it doesn't.
type plant struct {
	objects, size int // what each call of the handler allocates besides, in the phase spec; the size in bytes
	// In the phase edited, each parent is reconciled once more. It is so if there are objects.
}

// measure measures an operator in a process of its own.
func measure(t *testing.T, more plant) round {
	t.Helper()
	w := newWorld(t)
	results, out, err := os.Pipe()
	require.NoError(t, err)
	defer results.Close()
	p := operatorproc.Command{Name: "subject", Output: out, Env: []string{
		"GOMAXPROCS=2", "KUBECONFIG=" + cluster.Kubeconfig(), envNamespace + "=" + w.namespace,
		envObjects + "=" + strconv.Itoa(more.objects), envSize + "=" + strconv.Itoa(more.size),
	}}.Start(t)
	require.NoError(t, out.Close())
	found := round{}
	lines := bufio.NewScanner(results)
	for _, phase := range phases() {
		if phase.do != nil {
			require.NoError(t, phase.do(t.Context(), w), phase.name)
		}
		p.Word()
		var of totals
		require.True(t, lines.Scan(), "%s: the operator has ended", phase.name)
		require.NoError(t, json.Unmarshal(lines.Bytes(), &of), "%s: %s", phase.name, lines.Text())
		found[phase.name] = of
	}
	require.Zero(t, p.Exit())
	return found
}

// newWorld makes a namespace for a round.
func newWorld(t *testing.T) *world {
	t.Helper()
	cfg := cluster.RESTConfig()
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	made, err := namespaces.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "gates-"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w := &world{client: client, namespace: made.GetName()}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, w.patch(ctx, parents, `{"metadata":{"finalizers":null}}`)) // their operator is gone
		require.NoError(t, namespaces.Delete(ctx, w.namespace, metav1.DeleteOptions{}))
	})
	return w
}
