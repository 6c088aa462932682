package scale

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A phase is what one part of a run took.
type phase struct {
	name      string
	wall, cpu time.Duration
	passes    int64
	writes    int64
	gc        float64 // of the CPU time
}

func (p phase) perPass() time.Duration { return p.cpu / time.Duration(max(p.passes, 1)) }

// A run is one size.
type run struct {
	parents int
	phases  map[string]phase
	heap    float64 // of the operator, bytes per stored object
}

// measure runs do and says what it took.
func measure(t *testing.T, name string, w *world, o *operator, do func()) phase {
	t.Helper()
	passes, writes := o.passes(), w.writes.Load()
	gc, total := gcTime()
	cpu, began := cpuTime(t), time.Now()
	do()
	p := phase{
		name: name, wall: time.Since(began), cpu: cpuTime(t) - cpu,
		passes: o.passes() - passes, writes: w.writes.Load() - writes,
	}
	gcNow, totalNow := gcTime()
	if totalNow > total {
		p.gc = (gcNow - gc) / (totalNow - total)
	}
	return p
}

// cpuTime is what this process has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// gcTime is the garbage collector's CPU time so far, and that of all but idling.
// The runtime brings them up to date at the end of each collection.
func gcTime() (gc, busy float64) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"},
	}
	runtime.GC()
	metrics.Read(samples)
	gc = samples[0].Value.Float64() - samples[1].Value.Float64()
	return gc, samples[2].Value.Float64() - samples[3].Value.Float64() - samples[1].Value.Float64()
}

// heapInUse is what is reachable.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// measureSize lets an operator converge, restarts it, and changes every spec.
func measureSize(t *testing.T, parents int, resyncs int64) run {
	t.Helper()
	w := newWorld(t, parents)
	n := int64(parents)
	r := run{parents: parents, phases: map[string]phase{}}
	note := func(p phase) { r.phases[p.name] = p }

	o := start(t, w.server.RESTConfig())
	note(measure(t, "cold", w, o, func() {
		o.until("all is written", func() bool { return w.writes.Load() >= perParent*n && o.settled() })
	}))
	o.stop()

	o = start(t, w.server.RESTConfig())
	note(measure(t, "restart", w, o, func() { o.until("every parent was looked at", func() bool { return o.passes() >= n }) }))

	// What makes the parents resync is another label.
	o.resync.Store(int64(time.Millisecond))
	w.changeAll(t, func(object map[string]any) { metaOf(object)["labels"] = map[string]any{"resync": "yes"} })
	touched := o.passes()
	o.until("every parent resyncs", func() bool { return o.passes()-touched >= 2*n })
	note(measure(t, "resync", w, o, func() {
		from := o.passes()
		o.until("there were resyncs", func() bool { return o.passes()-from >= resyncs })
	}))
	o.resync.Store(0)
	o.until("every parent has rested", func() bool { return o.rested() })

	// Made while their events are held back, the changes aren't measured along.
	w.server.Hold(parentType())
	w.changeAll(t, setValue("second"))
	before := w.writes.Load()
	note(measure(t, "change", w, o, func() {
		w.server.Release()
		o.until("all is written", func() bool { return w.writes.Load()-before >= children*n && o.settled() })
	}))
	held := heapInUse()
	o.stop()
	r.heap = float64(held-min(held, heapInUse())) / float64(perParent*parents)
	runtime.KeepAlive(w) // so that what is gone is the operator's
	return r
}

// TestCounts: what is written and how often handlers are called, never times.
func TestCounts(t *testing.T) {
	const parents = 200
	w := newWorld(t, parents)
	o := start(t, w.server.RESTConfig())
	o.until("all is written", func() bool { return w.writes.Load() >= perParent*parents && o.settled() })
	require.EqualValues(t, perParent*parents, w.writes.Load(), "cold: three children and a status for each parent")
	o.stop()
	require.EqualValues(t, perParent*parents, w.writes.Load(), "and nothing more")

	o = start(t, w.server.RESTConfig())
	o.until("every parent was looked at", func() bool { return o.passes() >= parents && o.settled() })
	require.EqualValues(t, parents, o.calls.Load(), "restart: each parent is looked at once")
	require.EqualValues(t, perParent*parents, w.writes.Load(), "restart: all is in place")

	w.changeAll(t, setValue("second"))
	o.until("all is written", func() bool { return w.writes.Load() >= (perParent+children)*parents && o.settled() })
	o.stop()
	require.EqualValues(t, (perParent+children)*parents, w.writes.Load(), "change: two ConfigMaps and a status for each parent")
}

// TestScale measures. SCALE_OBJECTS are the numbers of stored objects, parents
// included, and SCALE_ROUNDS is how often each is measured.
func TestScale(t *testing.T) {
	sizes := os.Getenv("SCALE_OBJECTS")
	if sizes == "" {
		t.Skip("SCALE_OBJECTS isn't set; run make bench-scale")
	}
	var objects []int
	for size := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(size)
		require.NoError(t, err)
		objects = append(objects, n)
	}
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("SCALE_ROUNDS"), "1"))
	require.NoError(t, err)
	const resyncs = 60_000
	measureSize(t, objects[0]/perParent, resyncs) // the first one would pay for the process's start
	fmt.Printf("%8s %8s  %-8s %9s %9s %9s %9s %9s %11s %6s\n", "objects", "parents", "phase", "wall", "cpu", "passes", "writes", "passes/s", "cpu/pass", "gc")
	runs := map[int][]run{}
	for range rounds {
		for _, n := range objects {
			runs[n] = append(runs[n], measureSize(t, n/perParent, resyncs))
			reportSize(runs[n][len(runs[n])-1])
		}
		slices.Reverse(objects) // a machine that gets slower, or faster, shall not tell sizes apart
	}
	// The profile is of a run of its own, since profiling costs time as well.
	if path := os.Getenv("SCALE_PROFILE"); path != "" {
		file, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, pprof.StartCPUProfile(file))
		measureSize(t, 5000, resyncs)
		pprof.StopCPUProfile()
		require.NoError(t, file.Close())
	}
	slices.Sort(objects)
	report(objects, runs)
}

func reportSize(r run) {
	for _, name := range []string{"cold", "restart", "resync", "change"} {
		p := r.phases[name]
		fmt.Printf("%8d %8d  %-8s %9s %9s %9d %9d %9.0f %11s %5.1f%%\n", r.parents*perParent, r.parents, name,
			p.wall.Round(time.Millisecond), p.cpu.Round(time.Millisecond), p.passes, p.writes,
			float64(p.passes)/p.wall.Seconds(), p.perPass().Round(100*time.Nanosecond), 100*p.gc)
	}
}

// report says how the medians of all rounds grow with the number of objects.
func report(objects []int, runs map[int][]run) {
	for _, n := range objects {
		fmt.Printf("bench-scale: %d objects: heap per object %.0f B\n", n, median(runs[n], func(r run) float64 { return r.heap }))
	}
	growth := func(n int, name string) float64 {
		cost := func(r run) float64 { return float64(r.phases[name].perPass()) }
		return median(runs[n], cost) / median(runs[objects[0]], cost)
	}
	for _, n := range objects[1:] {
		for _, name := range []string{"resync", "change", "cold", "restart"} {
			fmt.Printf("bench-scale: %d objects: %s cost growth %.2f\n", n, name, growth(n, name))
		}
	}
	fmt.Printf("bench-scale: pass cost growth %.2f\n", growth(objects[len(objects)-1], "resync"))
}

func median(runs []run, of func(run) float64) float64 {
	var values []float64
	for _, r := range runs {
		values = append(values, of(r))
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}
