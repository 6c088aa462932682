package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/resource"
)

// Metrics are the counters and histograms of an operator. Their labels are few and
// bounded: never one per child, and one per parent only if the user wants it, up to a
// limit. Frequent events have counters of their
// own, so that no lookup by labels is needed. The methods may be called
// concurrently once Register has returned. On a nil *Metrics, Wrote, Tried, Of,
// ForgetParent and Meter may be called and count nothing.
type Metrics struct {
	syncs, failedSyncs prometheus.Counter
	duration           prometheus.Histogram
	wait               prometheus.Histogram
	eventToWrite       prometheus.Histogram
	handlers           map[handlerCall]prometheus.Observer
	writes             *prometheus.CounterVec // by type, verb and result
	events             *prometheus.CounterVec // by result
	api                *apiMetrics
	types              map[resource.Type]*TypeMetrics // never changed once an engine runs

	parents    *parentMetrics // nil: there are no metrics of single parents
	perType    perType
	collectors []prometheus.Collector
}

// A WriteOutcome is the result of a write, as a label of the metrics.
type WriteOutcome string

// The outcomes of a write.
const (
	WriteSuccess   WriteOutcome = "success"
	WriteConflict  WriteOutcome = "conflict"  // someone else has changed or deleted the object before
	WriteError     WriteOutcome = "error"     // any other error
	WriteRedundant WriteOutcome = "redundant" // the write succeeded and changed nothing; counted as a success too
)

// WriteResult returns the outcome of a write that ended with err.
func WriteResult(err error) WriteOutcome {
	switch {
	case err == nil:
		return WriteSuccess
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return WriteConflict
	}
	return WriteError
}

// A handlerCall is a method of the handler, and whether a call of it failed.
type handlerCall struct {
	method string
	failed bool
}

// TypeMetrics are the counters of one type. Those exported are for its watch.
type TypeMetrics struct {
	Added, Modified, Deleted, Bookmarks prometheus.Counter // events
	Lists, WatchFailures                prometheus.Counter // complete lists; lists and watches that failed
	dryRuns, differences, redundant     prometheus.Counter
	loops                               prometheus.Counter
}

// perType are the vectors that TypeMetrics are taken from.
type perType struct {
	events                                                       *prometheus.CounterVec // by type and event
	lists, watchFailures, dryRuns, differences, redundant, loops *prometheus.CounterVec // by type
}

// fastBuckets returns the buckets for durations within the process, in seconds.
func fastBuckets() []float64 { return prometheus.ExponentialBuckets(0.0001, 4, 10) }

// slowBuckets returns the buckets for durations of requests, in seconds.
func slowBuckets() []float64 { return prometheus.ExponentialBuckets(0.005, 2, 14) }

// NewMetrics returns metrics that can be counted. Register makes them readable.
func NewMetrics() *Metrics {
	m := &Metrics{types: map[resource.Type]*TypeMetrics{}, handlers: map[handlerCall]prometheus.Observer{}}
	syncs := m.counter("roperator_syncs_total", "Passes over a parent, by result: success, error.", "result")
	m.syncs, m.failedSyncs = syncs.WithLabelValues("success"), syncs.WithLabelValues("error")
	m.duration = m.histogram("roperator_sync_duration_seconds", "How long a pass took, in seconds.", fastBuckets())
	m.wait = m.histogram("roperator_queue_wait_seconds", "How long a parent that was due waited for a worker, in seconds.", fastBuckets())
	m.eventToWrite = m.histogram("roperator_event_to_write_seconds",
		"Time from the watch event that made a parent due until the first write of its pass had been answered, in seconds.", slowBuckets())
	handlers := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "roperator_handler_duration_seconds", Buckets: fastBuckets(),
		Help: "How long calls of the handler took, in seconds, by method (sync, finalize) and result (success, error).",
	}, []string{"method", "result"})
	m.collectors = append(m.collectors, handlers)
	for _, method := range []string{MethodSync, MethodFinalize} {
		m.handlers[handlerCall{method, false}] = handlers.WithLabelValues(method, "success")
		m.handlers[handlerCall{method, true}] = handlers.WithLabelValues(method, "error")
	}
	m.writes = m.counter("roperator_writes_total", "Writes of children and parents, by type, verb and result: success, conflict, error.", "type", "verb", "result")
	m.events = m.counter("roperator_events_total", "Events recorded on parents, by result: written, counted (in an equal one), dropped (too many waited), failed.", "result")
	for _, result := range []string{eventWritten, eventCounted, eventDropped, eventFailed} {
		m.events.WithLabelValues(result)
	}
	m.api = newAPIMetrics()
	m.collectors = append(m.collectors, m.api.requests, m.api.duration)
	m.perType = perType{
		events:        m.counter("roperator_watch_events_total", "Events that watches delivered, by type and event: added, modified, deleted, bookmark.", "type", "event"),
		lists:         m.counter("roperator_lists_total", "Complete lists of a type that were taken in: one at the start, more after watches that couldn't be continued.", "type"),
		watchFailures: m.counter("roperator_watch_failures_total", "Lists and watches that the API server refused or didn't answer, by type.", "type"),
		dryRuns:       m.counter("roperator_dry_runs_total", "Requests with dryRun=All, by type: whether a child really differs, or what DryRun would write.", "type"),
		differences:   m.counter("roperator_differences_total", "Fields in which children differed from what was desired and that were to be corrected, by type.", "type"),
		redundant:     m.counter("roperator_redundant_writes_total", "Writes that changed nothing, as the resourceVersion stayed the same, by type.", "type"),
		loops:         m.counter("roperator_conflict_loops_total", "Conflict loops found, by the type of the object that is written again and again.", "type"),
	}
	return m
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.collectors = append(m.collectors, c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.collectors = append(m.collectors, h)
	return h
}

// Register registers the metrics with reg, under the label controller, which tells
// the operators of a process apart, and the label shard, which tells the shards of an operator
// apart (empty: there are none). types are the types that the operator watches.
// values returns the operator's state. It is called, perhaps concurrently, whenever
// somebody reads the metrics. Register must be called at most once, before anything
// is counted concurrently. The caller calls unregister when the operator has ended, so
// that the operator can be run again with the same registry.
func (m *Metrics) Register(reg prometheus.Registerer, controller, shard string, types []resource.Type, values func() Gauges) (unregister func(), err error) {
	for _, t := range types {
		m.types[t] = m.perType.of(t.String())
	}
	m.collectors = append(m.collectors, newGaugeCollector(values, m.parents))
	labels := prometheus.Labels{"controller": controller}
	if shard != "" {
		labels["shard"] = shard
	}
	reg = prometheus.WrapRegistererWith(labels, reg)
	if err := reg.Register(m); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return func() { reg.Unregister(m) }, nil
}

// of returns the counters of the type with this name.
func (v *perType) of(name string) *TypeMetrics {
	return &TypeMetrics{
		Added: v.events.WithLabelValues(name, "added"), Modified: v.events.WithLabelValues(name, "modified"),
		Deleted: v.events.WithLabelValues(name, "deleted"), Bookmarks: v.events.WithLabelValues(name, "bookmark"),
		Lists: v.lists.WithLabelValues(name), WatchFailures: v.watchFailures.WithLabelValues(name),
		dryRuns: v.dryRuns.WithLabelValues(name), differences: v.differences.WithLabelValues(name),
		redundant: v.redundant.WithLabelValues(name), loops: v.loops.WithLabelValues(name),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(to)
	}
}

// A Pass describes a pass that has ended.
type Pass struct {
	Took       time.Duration
	Waited     time.Duration // how long the parent waited for a worker
	Event      time.Time     // when the watch event came that made the parent due; zero: there was none
	FirstWrite time.Time     // when the first write was answered; zero: there was none
	Failed     bool
}

// Passed counts a pass.
func (m *Metrics) Passed(p Pass) {
	m.duration.Observe(p.Took.Seconds())
	m.wait.Observe(p.Waited.Seconds())
	if !p.Event.IsZero() && !p.FirstWrite.IsZero() {
		m.eventToWrite.Observe(p.FirstWrite.Sub(p.Event).Seconds())
	}
	if p.Failed {
		m.failedSyncs.Inc()
	} else {
		m.syncs.Inc()
	}
}

// Handled counts a call of the handler, of MethodSync or MethodFinalize, that has
// ended with err. ctx is the context of the call. A call that ended because its
// context was canceled, as the operator stops, hasn't failed.
func (m *Metrics) Handled(ctx context.Context, method string, took time.Duration, err error) {
	failed := err != nil && !errors.Is(ctx.Err(), context.Canceled)
	m.handlers[handlerCall{method, failed}].Observe(took.Seconds())
}

// Wrote counts a write of an object of a type.
func (m *Metrics) Wrote(t resource.Type, verb string, outcome WriteOutcome) {
	if m == nil {
		return
	}
	if outcome == WriteRedundant {
		m.Of(t).redundant.Inc()
		outcome = WriteSuccess
	}
	m.writes.WithLabelValues(t.String(), verb, string(outcome)).Inc()
}

// Corrected counts the fields of an object that a write was to correct.
func (m *Metrics) Corrected(t resource.Type, fields int) {
	m.Of(t).differences.Add(float64(fields))
}

// Loop counts a conflict loop over an object of a type.
func (m *Metrics) Loop(t resource.Type) { m.Of(t).loops.Inc() }

// Tried counts a request with dryRun=All about an object of a type.
func (m *Metrics) Tried(t resource.Type) {
	if m != nil {
		m.Of(t).dryRuns.Inc()
	}
}

// Of returns the counters of a type, nil if m is nil. It may be given any type, but
// those that Register was given take no lookup by labels.
func (m *Metrics) Of(t resource.Type) *TypeMetrics {
	if m == nil {
		return nil
	}
	if known := m.types[t]; known != nil {
		return known
	}
	return m.perType.of(t.String()) // not watched
}
