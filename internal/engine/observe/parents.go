package observe

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// A parentMetrics holds metrics of single parents: of limit parents at most, so that their
// number doesn't grow with the cluster. Who has a first pass while there is room gets in,
// and stays until it is forgotten. Then the next parent without metrics that has a pass
// takes its place. It is safe for concurrent use.
type parentMetrics struct {
	limit int

	syncs, failing, succeeded, without *prometheus.Desc

	mu struct {
		sync.Mutex
		series map[types.NamespacedName]*parentSeries
		keys   map[types.UID]types.NamespacedName // of those in series
	}
}

// A parentSeries is what the metrics say of one parent.
type parentSeries struct {
	uid               types.UID
	successes, errors uint64
	failed            bool      // the last pass has
	succeeded         time.Time // when a pass last did; zero: never yet
}

func newParentMetrics(limit int) *parentMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	p := &parentMetrics{
		limit:   limit,
		syncs:   desc("roperator_parent_syncs_total", "With --parent-metrics: passes over a single parent, by result: success, error.", "namespace", "name", "result"),
		failing: desc("roperator_parent_failing", "With --parent-metrics: 1 if the last pass over a single parent failed.", "namespace", "name"),
		succeeded: desc("roperator_parent_last_success_timestamp_seconds",
			"With --parent-metrics: when a pass over a single parent last succeeded, in seconds since 1970; missing until one has.", "namespace", "name"),
		without: desc("roperator_parents_without_metrics", "With --parent-metrics: parents that have no metrics of their own: there are more than the flag allows, or they had no pass yet."),
	}
	p.mu.series, p.mu.keys = map[types.NamespacedName]*parentSeries{}, map[types.UID]types.NamespacedName{}
	return p
}

// passed counts a pass over a parent. A parent that takes the name of another one begins
// anew.
func (p *parentMetrics) passed(uid types.UID, key types.NamespacedName, failed bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.mu.series[key]
	if of != nil && of.uid != uid {
		p.dropLocked(of.uid)
		of = nil
	}
	if of == nil {
		if len(p.mu.series) >= p.limit {
			return
		}
		// Copies don't keep the whole text of the parent in memory.
		uid, key = types.UID(strings.Clone(string(uid))), types.NamespacedName{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
		of = &parentSeries{uid: uid}
		p.mu.series[key], p.mu.keys[uid] = of, key
	}
	if of.failed = failed; failed {
		of.errors++
		return
	}
	of.successes++
	of.succeeded = now
}

// forget drops the metrics of a parent, and makes room for another one.
func (p *parentMetrics) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked(uid)
}

func (p *parentMetrics) dropLocked(uid types.UID) {
	key, ok := p.mu.keys[uid]
	if !ok {
		return
	}
	delete(p.mu.keys, uid)
	delete(p.mu.series, key)
}

// describe sends what the metrics are.
func (p *parentMetrics) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.syncs, p.failing, p.succeeded, p.without} {
		to <- d
	}
}

// collect sends the metrics. parents is how many parents there are that have passes.
func (p *parentMetrics) collect(to chan<- prometheus.Metric, parents int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, of := range p.mu.series {
		failing := 0.0
		if of.failed {
			failing = 1
		}
		to <- prometheus.MustNewConstMetric(p.syncs, prometheus.CounterValue, float64(of.successes), key.Namespace, key.Name, "success")
		to <- prometheus.MustNewConstMetric(p.syncs, prometheus.CounterValue, float64(of.errors), key.Namespace, key.Name, "error")
		to <- prometheus.MustNewConstMetric(p.failing, prometheus.GaugeValue, failing, key.Namespace, key.Name)
		if !of.succeeded.IsZero() {
			to <- prometheus.MustNewConstMetric(p.succeeded, prometheus.GaugeValue, float64(of.succeeded.UnixMilli())/1000, key.Namespace, key.Name)
		}
	}
	to <- prometheus.MustNewConstMetric(p.without, prometheus.GaugeValue, float64(max(0, parents-len(p.mu.series))))
}

// OfParents adds metrics of single parents, of limit parents at most. It does nothing if
// limit is 0. It must be called before Register.
func (m *Metrics) OfParents(limit int) {
	if limit > 0 {
		m.parents = newParentMetrics(limit)
	}
}

// PassedParent counts a pass over a single parent, if there are metrics of single parents.
func (m *Metrics) PassedParent(uid types.UID, key types.NamespacedName, failed bool) {
	if m.parents != nil {
		m.parents.passed(uid, key, failed, time.Now())
	}
}

// ForgetParent drops the metrics of a parent that is gone. m may be nil.
func (m *Metrics) ForgetParent(uid types.UID) {
	if m != nil && m.parents != nil {
		m.parents.forget(uid)
	}
}
