package related

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// most is how much larger the heap may be for Secrets that nobody refers to, in bytes.
const most = 1 << 20

// A usage is the memory of an operator, in bytes.
type usage struct {
	held  int64 // reachable when the operator is at rest, but for what was before
	churn int64 // the same after many foreign Secrets have changed
	peak  int64 // the most that a garbage collection has left while the operator started
}

// heapInUse is what is reachable.
func heapInUse() int64 {
	for range 3 { // what finalizers and pools hold goes later
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// watchPeak notes the most that a garbage collection leaves, until stop.
func watchPeak() (stop func() int64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var peak int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			peak = max(peak, int64(sample[0].Value.Uint64()))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() int64 {
		close(done)
		wg.Wait()
		return peak
	}
}

// usage runs an operator.
func (w *world) usage(foreign int) usage {
	w.t.Helper()
	before := heapInUse()
	stop := watchPeak()
	o := start(w)
	u := usage{peak: stop() - before, held: heapInUse() - before}
	require.Equal(w.t, w.parents, o.manager.Engine().Sizes()["related objects"])
	secrets := w.typed.CoreV1().Secrets(w.namespace)
	w.each(min(foreign, 2000), func(ctx context.Context, i int) error {
		_, err := secrets.Patch(ctx, fmt.Sprintf("foreign-%05d", i), types.MergePatchType, []byte(`{"stringData":{"text":"changed"}}`), metav1.PatchOptions{})
		return err
	})
	calls := o.calls.Load()
	_, err := secrets.Patch(w.t.Context(), secretName(0), types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"text":%q}}`, time.Now()), metav1.PatchOptions{})
	require.NoError(w.t, err)
	until(w.t, "the last change has been seen", func() bool { return o.calls.Load() > calls && o.rests() })
	u.churn = heapInUse() - before
	w.profile()
	o.stop()
	return u
}

// profile writes a heap profile if RELATED_PROFILE says where to.
func (w *world) profile() {
	w.t.Helper()
	path := os.Getenv("RELATED_PROFILE")
	if path == "" {
		return
	}
	file, err := os.Create(path + "." + w.namespace)
	require.NoError(w.t, err)
	require.NoError(w.t, pprof.Lookup("heap").WriteTo(file, 0))
	require.NoError(w.t, file.Close())
}

// TestHeap: what nobody refers to isn't held, however the Secrets are watched. RELATED_SECRETS
// says how many there are of those, and RELATED_ROUNDS how often it is measured.
func TestHeap(t *testing.T) {
	foreign, rounds := fromEnv(t, "RELATED_SECRETS", 2000), fromEnv(t, "RELATED_ROUNDS", 1)
	for _, parents := range []int{50, 100} { // a watch each, and one of all
		none := newWorld(t, fmt.Sprintf("none-%d-", parents), parents, 0)
		among := newWorld(t, fmt.Sprintf("among-%d-", parents), parents, foreign)
		var without, with []usage
		none.usage(0) // the first one would pay for the process's start
		for range rounds {
			without = append(without, none.usage(0))
			with = append(with, among.usage(foreign))
		}
		report(parents, foreign, without, with)
		held := func(u usage) int64 { return max(u.held, u.churn) }
		require.LessOrEqual(t, median(with, held), median(without, held)+most, "%d parents", parents)
	}
}

func report(parents, foreign int, without, with []usage) {
	for _, of := range []struct {
		name  string
		value func(usage) int64
	}{
		{"at rest", func(u usage) int64 { return u.held }},
		{"after changes of others", func(u usage) int64 { return u.churn }},
		{"most while it starts", func(u usage) int64 { return u.peak }},
	} {
		a, b := median(without, of.value), median(with, of.value)
		fmt.Printf("bench-related: %d parents, heap %s: %.2f MB without foreign Secrets, %.2f MB among %d: %+.2f MB\n",
			parents, of.name, megabytes(a), megabytes(b), foreign, megabytes(b-a))
	}
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }

func median(all []usage, of func(usage) int64) int64 {
	var values []int64
	for _, u := range all {
		values = append(values, of(u))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
