package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roperator/roperator/resource"
)

// Gauges are an operator's state at one moment.
type Gauges struct {
	Due     int           // parents that are due and wait for a worker
	Running int           // passes under way
	Workers int           // how many passes can be under way at once
	Longest time.Duration // for how long the oldest pass has been under way
	Long    int           // passes that have been under way for a minute or longer
	Leading bool          // this process may write
	Parents int           // parents that are held
	Store   []StoreUsage  // the objects held, by type
	Related []RelatedUsage
	// LogLinesDropped is how many lines of the process's log were dropped so far.
	LogLinesDropped uint64
	// Heard is when the API server last sent anything on the watch of each type. Of
	// several watches of a type, the one that has been silent the longest counts.
	Heard map[resource.Type]time.Time
}

// A StoreUsage says how many objects of a type the store holds, and how many bytes
// their JSON has.
type StoreUsage struct {
	Type           resource.Type
	Objects, Bytes int
}

// A RelatedUsage says how many related objects of a type are held, and how many watches
// deliver them.
type RelatedUsage struct {
	Type             resource.Type
	Objects, Watches int
}

// A gaugeCollector collects the metrics of an operator's state. It looks the state
// up when somebody reads the metrics.
type gaugeCollector struct {
	values  func() Gauges
	parents *parentMetrics // nil: there are none

	depth, running, workers, longest, long, leader, objects, bytes, related, watches, staleness, dropped *prometheus.Desc
}

// leaderHelp is what roperator_leader says.
const leaderHelp = "1 if this process may write: it holds the lease, or there is no leader election."

func newGaugeCollector(values func() Gauges, parents *parentMetrics) *gaugeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &gaugeCollector{
		values:    values,
		parents:   parents,
		depth:     desc("roperator_queue_depth", "Parents that are due and wait for a worker."),
		running:   desc("roperator_syncs_running", "Passes that are under way."),
		workers:   desc("roperator_syncs_max", "How many passes can be under way at once: MaxConcurrentSyncs."),
		longest:   desc("roperator_longest_running_sync_seconds", "How long the longest of the passes that are under way has taken so far, in seconds; 0: there is none."),
		long:      desc("roperator_syncs_long_running", "Passes that have been under way for a minute or longer."),
		leader:    desc("roperator_leader", leaderHelp),
		objects:   desc("roperator_store_objects", "Objects kept in memory, by type.", "type"),
		bytes:     desc("roperator_store_bytes", "Bytes of JSON of the objects kept in memory, by type; what they take in memory is a little more.", "type"),
		related:   desc("roperator_related_objects", "Objects kept in memory that parents refer to and that aren't their children, by type.", "type"),
		watches:   desc("roperator_related_watches", "Watches of what parents refer to, by type.", "type"),
		staleness: desc("roperator_watch_staleness_seconds", "Time since a watch of the type last heard anything of the API server, which sends a bookmark about once a minute, in seconds.", "type"),
		dropped:   desc("roperator_log_lines_dropped_total", "Lines of the process's log that were dropped, since they couldn't be written or nobody read them; always 0 with a logger of the program's own."),
	}
}

// Describe implements prometheus.Collector.
func (g *gaugeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.depth, g.running, g.workers, g.longest, g.long, g.leader, g.objects, g.bytes, g.related, g.watches, g.staleness, g.dropped} {
		to <- d
	}
	if g.parents != nil {
		g.parents.describe(to)
	}
}

// Collect implements prometheus.Collector.
func (g *gaugeCollector) Collect(to chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := g.values()
	set(g.depth, float64(now.Due))
	set(g.running, float64(now.Running))
	set(g.workers, float64(now.Workers))
	set(g.longest, now.Longest.Seconds())
	set(g.long, float64(now.Long))
	leading := 0.0
	if now.Leading {
		leading = 1
	}
	set(g.leader, leading)
	if g.parents != nil && !now.Leading {
		g.parents.collect(to, 0) // nobody expects them from a replica that waits
	} else if g.parents != nil {
		g.parents.collect(to, now.Parents)
	}
	to <- prometheus.MustNewConstMetric(g.dropped, prometheus.CounterValue, float64(now.LogLinesDropped))
	for _, held := range now.Store {
		set(g.objects, float64(held.Objects), held.Type.String())
		set(g.bytes, float64(held.Bytes), held.Type.String())
	}
	for _, of := range now.Related {
		set(g.related, float64(of.Objects), of.Type.String())
		set(g.watches, float64(of.Watches), of.Type.String())
	}
	for t, heard := range now.Heard {
		set(g.staleness, max(time.Since(heard), 0).Seconds(), t.String())
	}
}
