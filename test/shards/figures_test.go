package shards

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A usage is what a process needed for something, and what it has since.
type usage struct {
	cpu, server time.Duration // its own CPU time, and that of the API server
	rss, peak   int64
	heap        int64 // what is reachable
}

// A measured is a replica with its usage: for its start until it rests, and for a change of every
// tenth parent.
type measured struct {
	*replica
	calls         int64 // of the handler, so far
	start, change usage
}

// A bench is a cluster with parents.
type bench struct {
	*stage
	count  int
	server int // the process of the API server
	rows   []row
	value  int // of the parents that were changed last
}

// A row is a line of the figures.
type row struct {
	what          string
	start, change usage
}

// What replicas need that share parents, with an API server that divides watches and with one that
// doesn't, beside one that isn't divided.
func TestFigures(t *testing.T) {
	if os.Getenv("SHARDS_FIGURES") == "" {
		t.Skip("SHARDS_FIGURES isn't set")
	}
	for _, gate := range []string{"false", "true"} {
		t.Run("ShardedListAndWatch="+gate, func(t *testing.T) { measure(t, gate) })
	}
}

func measure(t *testing.T, gate string) {
	t.Helper()
	s := &stage{T: t, cluster: startCluster(t, map[string]string{"feature-gates": "ShardedListAndWatch=" + gate})}
	rc := s.cluster.RESTConfig()
	s.client = dial(t, rc)
	s.namespace = newNamespace(t, s.client)
	b := &bench{stage: s, count: number(t, "SHARDS_PARENTS", 20000), server: serverOf(t, rc.Host)}
	b.each(1, func(ctx context.Context, parents dynamic.ResourceInterface, name string) error {
		_, err := parents.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": parentType().APIVersion, "kind": parentType().Kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"value": 0},
		}}, metav1.CreateOptions{})
		return err
	})
	b.run("undivided, makes the children", 1, 0)
	b.run("undivided", 1, 0)
	b.run("8 shards, labels the children", 1, shards)
	b.run("8 shards in one process", 1, shards)
	b.run("8 shards in four processes", 4, shards)
	b.report()
}

// each does something with each n-th parent, eight at a time.
func (b *bench) each(n int, do func(ctx context.Context, parents dynamic.ResourceInterface, name string) error) {
	b.Helper()
	parents := b.client.Resource(resourceOf("shards.example.com", "v1", "gadgets")).Namespace(b.namespace)
	const workers = 8
	errs := make([]error, workers)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker * n; i < b.count && errs[worker] == nil; i += workers * n {
				errs[worker] = do(b.Context(), parents, fmt.Sprint("p", i))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(b, err)
	}
}

// run measures replicas, from their start until they have ended.
func (b *bench) run(what string, replicas, of int) {
	b.Helper()
	b.Logf("%s: %s", time.Now().Format("15:04:05"), what)
	b.of, b.alive = of, nil
	server := cpuOf(b.T, b.server)
	var all []*measured
	for i := range replicas {
		all = append(all, b.begin(fmt.Sprintf("%d-%d", len(b.rows), i)))
	}
	b.rested(all, int64(b.count), server, func(m *measured) *usage { return &m.start })

	before := callsOf(all)
	server = cpuOf(b.T, b.server)
	for _, m := range all {
		forgetMost(b.T, m.Pid())
	}
	b.value++
	b.each(10, func(ctx context.Context, parents dynamic.ResourceInterface, name string) error {
		_, err := parents.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%d}}`, b.value), metav1.PatchOptions{})
		return err
	})
	b.rested(all, before+int64(b.count)/10, server, func(m *measured) *usage { return &m.change })
	b.written()

	if replicas == 1 {
		b.rows = append(b.rows, row{what, all[0].start, all[0].change})
	} else {
		for i, m := range all {
			b.rows = append(b.rows, row{fmt.Sprintf("%s: %d", what, i+1), m.start, m.change})
		}
		b.rows = append(b.rows, row{what + ": mean", mean(all, func(m *measured) usage { return m.start }), mean(all, func(m *measured) usage { return m.change })})
		all = b.joins(all)
	}
	for _, m := range all {
		m.Signal(syscall.SIGTERM)
		require.Zero(b, m.Exit())
	}
}

// begin starts a replica.
func (b *bench) begin(identity string) *measured {
	b.Helper()
	r := startReplica(b.T, b.cluster, b.namespace, small, identity, b.of)
	b.alive = append(b.alive, r)
	return &measured{replica: r}
}

// joins replaces one of several replicas by another, and measures that one, which never has more
// shards than it has in the end.
func (b *bench) joins(all []*measured) []*measured {
	b.Helper()
	all[0].Signal(syscall.SIGTERM)
	require.Zero(b, all[0].Exit())
	b.without(all[0].replica)
	b.shared()
	all = all[1:]
	b.rested(all, 0, 0, func(*measured) *usage { return &usage{} })
	server := cpuOf(b.T, b.server)
	m := b.begin("joins")
	all = append(all, m)
	b.shared()
	b.rested([]*measured{m}, int64(b.count)/8, server, func(m *measured) *usage { return &m.start }) // two of eight shards have about a quarter
	b.rows = append(b.rows, row{what: "8 shards, the fourth to join", start: m.start})
	return all
}

// rested waits until the replicas have called their handlers so often, and rest. It notes what they
// needed since they were asked last, and what the API server needed since it had used this CPU time.
func (b *bench) rested(all []*measured, calls int64, server time.Duration, place func(*measured) *usage) {
	b.Helper()
	const interval, idle = 2 * time.Second, 100 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last []time.Duration
	quiet := 0
	for deadline := time.Now().Add(time.Hour); ; <-tick.C {
		require.True(b, time.Now().Before(deadline), "the replicas rest")
		var now []time.Duration
		busy := len(last) == 0
		for i, m := range all {
			now = append(now, cpuOf(b.T, m.Pid()))
			busy = busy || now[i]-last[i] > idle
		}
		if last = now; busy {
			quiet = 0
			continue
		}
		if quiet++; quiet < 3 {
			continue
		}
		if b.note(all, server, place); callsOf(all) >= calls {
			return
		}
		quiet = 0
	}
}

// note notes what replicas that rest have needed so far.
func (b *bench) note(all []*measured, server time.Duration, place func(*measured) *usage) {
	b.Helper()
	for _, m := range all {
		u := place(m)
		u.cpu, u.server = cpuOf(b.T, m.Pid()), cpuOf(b.T, b.server)-server
		u.rss, u.peak = memoryOf(b.T, m.Pid())
		if u != &m.start {
			u.cpu -= m.start.cpu
		}
		m.calls, u.heap = b.ask(m)
	}
}

// ask asks a replica how often its handler was called, and what is reachable. That lets it collect
// its garbage.
func (b *bench) ask(m *measured) (calls, heap int64) {
	b.Helper()
	const begins = "\nfigures: "
	answers := strings.Count(m.Said(), begins)
	m.Word()
	var said string
	require.Eventually(b, func() bool {
		said = m.Said()
		return strings.Count(said, begins) > answers && strings.HasSuffix(said[strings.LastIndex(said, begins):], "\n")
	}, patience, 50*time.Millisecond, "%s answers", m.identity)
	_, err := fmt.Sscanf(said[strings.LastIndex(said, begins)+len(begins):], "%d %d\n", &calls, &heap)
	require.NoError(b, err)
	return calls, heap
}

func callsOf(all []*measured) (sum int64) {
	for _, m := range all {
		sum += m.calls
	}
	return sum
}

// written finds that the status of each parent that was changed is as its spec.
func (b *bench) written() {
	b.Helper()
	list, err := b.client.Resource(resourceOf("shards.example.com", "v1", "gadgets")).Namespace(b.namespace).List(b.Context(), metav1.ListOptions{})
	require.NoError(b, err)
	for i := range list.Items {
		spec, _, _ := unstructured.NestedInt64(list.Items[i].Object, "spec", "value")
		status, _, _ := unstructured.NestedInt64(list.Items[i].Object, "status", "value")
		require.Equal(b, spec, status, list.Items[i].GetName())
	}
}

// mean returns what replicas needed on average. The CPU time of the API server is that for all of them.
func mean(all []*measured, of func(*measured) usage) (out usage) {
	n := int64(len(all))
	for _, m := range all {
		u := of(m)
		out.cpu += u.cpu / time.Duration(n)
		out.server = max(out.server, u.server)
		out.rss, out.peak, out.heap = out.rss+u.rss/n, out.peak+u.peak/n, out.heap+u.heap/n
	}
	return out
}

// report writes the figures, and how they compare with those of the process that isn't divided.
func (b *bench) report() {
	var out strings.Builder
	const mega = 1 << 20
	fmt.Fprintf(&out, "%d parents with %d children each. CPU time in seconds, memory in MiB. server: CPU time of the API server.\n", b.count, smallChildren)
	heads := "      cpu   server     peak      rss     heap"
	fmt.Fprintf(&out, "%-34s | start until rest%28s | change of every tenth parent\n%-34s |%s |%s\n", "", "", "", heads, heads)
	columns := func(u usage) string {
		if u == (usage{}) {
			return ""
		}
		return fmt.Sprintf(" %8.2f %8.2f %8.1f %8.1f %8.1f", u.cpu.Seconds(), u.server.Seconds(), float64(u.peak)/mega, float64(u.rss)/mega, float64(u.heap)/mega)
	}
	ratios := func(u, base usage) string {
		if u == (usage{}) {
			return ""
		}
		ratio := func(a, b float64) float64 { return a / max(b, 1e-9) }
		return fmt.Sprintf(" %8.2f %8.2f %8.2f %8.2f %8.2f", ratio(u.cpu.Seconds(), base.cpu.Seconds()), ratio(u.server.Seconds(), base.server.Seconds()),
			ratio(float64(u.peak), float64(base.peak)), ratio(float64(u.rss), float64(base.rss)), ratio(float64(u.heap), float64(base.heap)))
	}
	for _, r := range b.rows {
		fmt.Fprintf(&out, "%-34s |%s |%s\n", r.what, columns(r.start), columns(r.change))
	}
	base := b.rows[1]
	fmt.Fprintf(&out, "as a part of what is needed without shards:\n")
	for _, r := range b.rows[2:] {
		fmt.Fprintf(&out, "%-34s |%s |%s\n", r.what, ratios(r.start, base.start), ratios(r.change, base.change))
	}
	b.Logf("\n%s", out.String())
}
