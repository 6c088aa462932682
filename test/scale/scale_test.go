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

	"github.com/roperator/roperator/resource/k8s"
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
	heap    float64         // of the operator, bytes per stored object
	singles []time.Duration // from the change of a parent until the operator has nothing left to do, sorted
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

// measureSize lets an operator converge, restarts it, and changes every spec, all settings,
// and parents one by one.
func measureSize(t *testing.T, parents int, of shape, resyncs int64) run {
	t.Helper()
	w := newWorld(t, parents, of)
	n := int64(parents)
	r := run{parents: parents, phases: map[string]phase{}}
	note := func(p phase) { r.phases[p.name] = p }

	o := start(t, w)
	note(measure(t, "cold", w, o, func() {
		o.until("all is written", func() bool { return w.writes.Load() >= perParent*n && o.settled() })
	}))
	o.stop()

	o = start(t, w)
	note(measure(t, "restart", w, o, func() {
		o.until("every parent was looked at", func() bool { return o.calls.Load() >= n && o.settled() })
	}))

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
	if of.related {
		w.server.Hold(k8s.ConfigMap)
		w.changeSettings(t, "second")
		before = w.writes.Load()
		note(measure(t, "related", w, o, func() {
			w.server.Release()
			o.until("all is written", func() bool { return w.writes.Load()-before >= 2*n && o.settled() })
		}))
	}
	note(measure(t, "single", w, o, func() { r.singles = o.changeSingly(w, singles) }))
	held := heapInUse()
	o.stop()
	r.heap = float64(held-min(held, heapInUse())) / float64(perParent*parents)
	runtime.KeepAlive(w) // so that what is gone is the operator's
	return r
}

// singles is how many parents are changed one by one.
const singles = 500

// changeSingly changes parents one by one, and returns how long each took until all was
// written, sorted.
func (o *operator) changeSingly(w *world, changes int) []time.Duration {
	o.t.Helper()
	var took []time.Duration
	for i := range changes {
		before, began := w.writes.Load(), time.Now()
		w.change(o.t, i*(w.parents/changes)%w.parents, fmt.Sprint("single-", i))
		for limit := time.After(time.Minute); w.writes.Load()-before < children; {
			select {
			case <-w.wrote:
			case <-limit:
				require.FailNow(o.t, "a change isn't written within a minute")
			}
		}
		took = append(took, time.Since(began))
		o.until("the change is written", o.settled)
	}
	slices.Sort(took)
	return took
}

// TestCounts: what is written and how often handlers are called, never times.
func TestCounts(t *testing.T) {
	const parents = 200
	w := newWorld(t, parents, shape{})
	o := start(t, w)
	o.until("all is written", func() bool { return w.writes.Load() >= perParent*parents && o.settled() })
	require.EqualValues(t, perParent*parents, w.writes.Load(), "cold: three children and a status for each parent")
	o.stop()
	require.EqualValues(t, perParent*parents, w.writes.Load(), "and nothing more")

	o = start(t, w)
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
	of := shapeOf(t, os.Getenv("SCALE_WITH"))
	measureSize(t, objects[0]/perParent, of, resyncs) // the first one would pay for the process's start
	fmt.Printf("%8s %8s  %-8s %9s %9s %9s %9s %9s %11s %6s\n", "objects", "parents", "phase", "wall", "cpu", "passes", "writes", "passes/s", "cpu/pass", "gc")
	runs := map[int][]run{}
	for range rounds {
		for _, n := range objects {
			runs[n] = append(runs[n], measureSize(t, n/perParent, of, resyncs))
			reportSize(runs[n][len(runs[n])-1])
		}
		slices.Reverse(objects) // a machine that gets slower, or faster, shall not tell sizes apart
	}
	// The profile is of a run of its own, since profiling costs time as well.
	if path := os.Getenv("SCALE_PROFILE"); path != "" {
		file, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, pprof.StartCPUProfile(file))
		measureSize(t, 5000, of, resyncs)
		pprof.StopCPUProfile()
		require.NoError(t, file.Close())
	}
	slices.Sort(objects)
	report(objects, runs)
}

// phases are their names, in their order.
func phases() []string { return []string{"cold", "restart", "resync", "change", "related", "single"} }

func reportSize(r run) {
	for _, name := range phases() {
		p, ok := r.phases[name]
		if !ok {
			continue
		}
		fmt.Printf("%8d %8d  %-8s %9s %9s %9d %9d %9.0f %11s %5.1f%%\n", r.parents*perParent, r.parents, name,
			p.wall.Round(time.Millisecond), p.cpu.Round(time.Millisecond), p.passes, p.writes,
			float64(p.passes)/p.wall.Seconds(), p.perPass().Round(100*time.Nanosecond), 100*p.gc)
	}
	fmt.Printf("%8d %8d  a single change is written after %v, p95 %v\n", r.parents*perParent, r.parents,
		quantile(r.singles, 0.5).Round(time.Microsecond), quantile(r.singles, 0.95).Round(time.Microsecond))
}

// quantile returns a quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// report says how the medians of all rounds grow with the number of objects.
func report(objects []int, runs map[int][]run) {
	for _, n := range objects {
		single := func(q float64) func(run) float64 {
			return func(r run) float64 { return quantile(r.singles, q).Seconds() * 1000 }
		}
		fmt.Printf("bench-scale: %d objects: heap per object %.0f B; a single change is written after %.2f ms, p95 %.2f ms\n", n,
			median(runs[n], func(r run) float64 { return r.heap }), median(runs[n], single(0.5)), median(runs[n], single(0.95)))
	}
	growth := func(n int, name string) float64 {
		cost := func(r run) float64 { return float64(r.phases[name].perPass()) }
		return median(runs[n], cost) / median(runs[objects[0]], cost)
	}
	for _, n := range objects[1:] {
		for _, name := range phases() {
			if _, ok := runs[n][0].phases[name]; !ok {
				continue
			}
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
