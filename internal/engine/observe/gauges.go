package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roperator/roperator/resource"
)

// A Gauges says how things are with an operator.
type Gauges struct {
	Due, Running, Workers int // parents that wait, passes under way, and how many can be
	Leading               bool
	Store                 []StoreUsage
	// Heard is when the watch of each type last heard anything; of several, the
	// one that has been silent the longest.
	Heard map[resource.Type]time.Time
}

// A StoreUsage is what the store holds of a type.
type StoreUsage struct {
	Type           resource.Type
	Objects, Bytes int
}

// gaugeCollector are the metrics that say how things are. They are looked up when
// somebody asks, and cost nothing before.
type gaugeCollector struct {
	values func() Gauges

	depth, running, workers, leader, objects, bytes, staleness *prometheus.Desc
}

func newGaugeCollector(values func() Gauges) *gaugeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &gaugeCollector{
		values:    values,
		depth:     desc("roperator_queue_depth", "Parents that are due and wait for a worker."),
		running:   desc("roperator_syncs_running", "Passes that are under way."),
		workers:   desc("roperator_syncs_max", "How many passes can be under way at once: MaxConcurrentSyncs."),
		leader:    desc("roperator_leader", "1 if this process may write: it holds the lease, or there is no leader election."),
		objects:   desc("roperator_store_objects", "Objects kept in memory, by type.", "type"),
		bytes:     desc("roperator_store_bytes", "Bytes of JSON of the objects kept in memory, by type; what they take in memory is a little more.", "type"),
		staleness: desc("roperator_watch_staleness_seconds", "Time since a watch of the type last heard anything of the API server, which sends a bookmark about once a minute, in seconds.", "type"),
	}
}

// Describe is a prometheus.Collector's.
func (g *gaugeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.depth, g.running, g.workers, g.leader, g.objects, g.bytes, g.staleness} {
		to <- d
	}
}

// Collect is a prometheus.Collector's.
func (g *gaugeCollector) Collect(to chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := g.values()
	set(g.depth, float64(now.Due))
	set(g.running, float64(now.Running))
	set(g.workers, float64(now.Workers))
	leading := 0.0
	if now.Leading {
		leading = 1
	}
	set(g.leader, leading)
	for _, held := range now.Store {
		set(g.objects, float64(held.Objects), held.Type.String())
		set(g.bytes, float64(held.Bytes), held.Type.String())
	}
	for t, heard := range now.Heard {
		set(g.staleness, max(time.Since(heard), 0).Seconds(), t.String())
	}
}
