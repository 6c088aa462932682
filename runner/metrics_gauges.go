package runner

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roperator/roperator/resource"
)

// gauges are the metrics that say how things are. They are looked up when
// somebody asks, and cost nothing before.
type gauges struct {
	engine   *engine
	leading  func() bool
	watchers func() []*watcher

	depth, running, workers, leader, objects, bytes, staleness *prometheus.Desc
}

func newGauges(e *engine, leading func() bool, watchers func() []*watcher) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &gauges{
		engine: e, leading: leading, watchers: watchers,
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
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.depth, g.running, g.workers, g.leader, g.objects, g.bytes, g.staleness} {
		to <- d
	}
}

// Collect is a prometheus.Collector's.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	running, due, _ := g.engine.queue.activity()
	set(g.depth, float64(due))
	set(g.running, float64(running))
	set(g.workers, float64(g.engine.cfg.MaxConcurrentSyncs))
	leading := 0.0
	if g.leading() {
		leading = 1
	}
	set(g.leader, leading)
	for _, k := range g.engine.types.all() {
		objects, bytes := g.engine.store.usage(k.Type)
		set(g.objects, float64(objects), k.Type.String())
		set(g.bytes, float64(bytes), k.Type.String())
	}
	for t, heard := range g.heard() {
		set(g.staleness, max(time.Since(heard), 0).Seconds(), t.String())
	}
}

// heard is when the watch of each type heard anything; of several, the one
// that has been silent the longest.
func (g *gauges) heard() map[resource.Type]time.Time {
	oldest := map[resource.Type]time.Time{}
	for _, w := range g.watchers() {
		at := w.heardAt()
		if at.IsZero() {
			continue // the first list hasn't arrived
		}
		if was, ok := oldest[w.kind.Type]; !ok || at.Before(was) {
			oldest[w.kind.Type] = at
		}
	}
	return oldest
}
