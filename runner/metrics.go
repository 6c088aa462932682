package runner

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roperator/roperator/resource"
)

// metrics are what an operator counts. Their labels are few and bounded:
// never one per parent or child.
type metrics struct {
	syncs    *prometheus.CounterVec // by result
	duration prometheus.Histogram
	writes   *prometheus.CounterVec // by type, verb and result
	loops    *prometheus.CounterVec // by type
}

// newMetrics registers the metrics of an operator with reg. A second operator
// in the process shares them, told apart by the label controller.
func newMetrics(reg prometheus.Registerer, operator string, queue *scheduler) (*metrics, error) {
	reg = prometheus.WrapRegistererWith(prometheus.Labels{"controller": operator}, reg)
	m := &metrics{
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roperator_syncs_total", Help: "Passes over a parent, by result: success, error.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "roperator_sync_duration_seconds", Help: "How long a pass took, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roperator_writes_total", Help: "Writes of children and parents, by type, verb and result: success, conflict, error.",
		}, []string{"type", "verb", "result"}),
		loops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roperator_conflict_loops_total", Help: "Conflict loops found, by the type of the object that is written again and again.",
		}, []string{"type"}),
	}
	depth := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roperator_queue_depth", Help: "Parents that are due and wait for a worker.",
	}, func() float64 {
		_, due, _ := queue.activity()
		return float64(due)
	})
	var errs []error
	for _, c := range []prometheus.Collector{m.syncs, m.duration, m.writes, m.loops, depth} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// wrote counts a write.
func (m *metrics) wrote(t resource.Type, verb string, r result) {
	outcome := "success"
	switch {
	case r.await:
		outcome = "conflict"
	case r.err != nil:
		outcome = "error"
	case !r.wrote:
		return // a dry run
	}
	m.writes.WithLabelValues(t.String(), verb, outcome).Inc()
}
