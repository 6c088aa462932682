package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/testing/rig"
)

// A slowHandler is rig.Copier that takes its time, and notes when it was called.
type slowHandler struct {
	takes time.Duration

	mu            sync.Mutex
	calls         int
	running, most int
	called        map[string]time.Time // when it was first called, by the parent's name and value
}

func (h *slowHandler) sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	h.mu.Lock()
	if h.called == nil {
		h.called = map[string]time.Time{}
	}
	h.calls++
	h.running++
	h.most = max(h.most, h.running)
	if of := fmt.Sprint(req.Parent.Name(), "=", value); h.called[of].IsZero() {
		h.called[of] = time.Now()
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running--
	}()
	select {
	case <-time.After(h.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return rig.Copier(ctx, req)
}

// numbers returns how often the handler was called, and how often at once at most.
func (h *slowHandler) numbers() (calls, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls, h.most
}

// calledAt returns when the handler was first called for a parent with this value, the zero time if it wasn't.
func (h *slowHandler) calledAt(name, value string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.called[name+"="+value]
}

// summed returns the sum of the values of a metric: of gauges, and of the sums of histograms.
func summed(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return sum
}

// While a backlog waits in each shard of a process, an edit waits as long as without shards (S332),
// and the metrics count what they say.
func TestDivided_FreshBeforeBacklog(t *testing.T) {
	const parents, workers, takes = 60, 2, 10 * time.Second
	for name, tc := range map[string]struct {
		reason string
		shards int
	}{
		"Undivided": {reason: "the measure", shards: 0},
		"Four":      {reason: "a slot goes to the shard whose parent is fresh", shards: 4},
		"Sixteen":   {reason: "a slot goes to the shard whose parent is fresh", shards: 16},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				f := newFleet(t, max(1, tc.shards))
				f.cfg.MaxConcurrentSyncs = workers
				registry := prometheus.NewRegistry()
				h := &slowHandler{takes: takes}
				f.create(0, parents, "v")
				r := f.start("a", tc.shards, handler.SyncFunc(h.sync), func(o *manager.Options) { o.Metrics = observe.NewRegistry(registry) })
				rig.Elapse(150 * time.Second)
				var longest time.Duration
				for i := range 10 {
					name, at := fmt.Sprintf("p%03d", i*6), time.Now()
					f.edit(i*6, i*6+1, "v2")
					rig.Elapse(35 * time.Second)
					called := h.calledAt(name, "v2")
					require.False(t, called.IsZero(), "%s waits still", name)
					longest = max(longest, called.Sub(at))
					require.LessOrEqual(t, summed(t, registry, "roperator_syncs_running"), float64(workers))
				}
				t.Logf("an edit waited %v at most", longest)
				require.LessOrEqual(t, longest, takes+time.Second, tc.reason)
				rig.Elapse(20 * time.Minute)
				calls, most := h.numbers()
				require.Equal(t, workers, most)

				waits := summed(t, registry, "roperator_queue_wait_seconds")
				f.edit(0, 8, "v3")
				rig.Elapse(5 * time.Second)
				require.Equal(t, []float64{workers, 6}, []float64{summed(t, registry, "roperator_syncs_running"), summed(t, registry, "roperator_queue_depth")}, "what runs, and what waits")
				f.edit(2, 8, "v4")
				rig.Elapse(5 * time.Minute)
				more, _ := h.numbers()
				require.Equal(t, 24, more-calls, "one call each for the child, the status and nothing: the second edit came before the first call")
				require.InDelta(t, 360, summed(t, registry, "roperator_queue_wait_seconds")-waits, 1, "six parents waited for a slot, for 30 s to 90 s")
				r.cancel()
				require.NoError(t, <-r.ended)
			})
		})
	}
}

// A shard is given away while its parents and those of the other shards wait for slots.
func TestDivided_GivenAwayWhileParentsWait(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const parents, workers = 60, 2
		f := newFleet(t, 8)
		f.cfg.MaxConcurrentSyncs = workers
		of := map[string]*slowHandler{}
		replicas := map[string]*replica{}
		begin := func(name string) {
			of[name] = &slowHandler{takes: 10 * time.Second}
			replicas[name] = f.start(name, 8, handler.SyncFunc(of[name].sync))
		}
		f.create(0, parents, "v")
		begin("one")
		rig.Elapse(30 * time.Second)
		begin("two")
		rig.Elapse(45 * time.Second)
		require.Equal(t, map[string]int{"one": 4, "two": 4}, f.counts(), "a reconciliation of a shard's own is all that the shard waits for")
		replicas["one"].cancel()
		rig.Elapse(21 * time.Second)
		select {
		case err := <-replicas["one"].ended:
			require.NoError(t, err)
		default:
			require.Fail(t, "it waits for parents that wait for slots")
		}
		rig.Elapse(30 * time.Minute)
		f.requireChildren(parents, "v", true)
		for name, h := range of {
			_, most := h.numbers()
			require.Equal(t, workers, most, name)
		}
		replicas["two"].cancel()
		require.NoError(t, <-replicas["two"].ended)
	})
}
