package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roperator/roperator/resource"
)

// metrics are what an operator counts. Their labels are few and bounded:
// never one per parent or child. What happens often, as events and passes do,
// finds its counter without a search by labels. A nil *metrics counts nothing.
type metrics struct {
	syncs, failedSyncs prometheus.Counter
	duration           prometheus.Histogram
	wait               prometheus.Histogram
	eventToWrite       prometheus.Histogram
	handlers           map[handlerCall]prometheus.Observer
	writes             *prometheus.CounterVec // by type, verb and result
	events             *prometheus.CounterVec // by result
	api                *apiMetrics
	types              map[resource.Type]*typeMetrics // never changed once an engine runs

	perType    perType
	collectors []prometheus.Collector
}

// A handlerCall is the method that was called, and whether it failed.
type handlerCall struct {
	method string
	failed bool
}

// typeMetrics are those of one type.
type typeMetrics struct {
	added, modified, deleted, bookmarks prometheus.Counter
	lists, watchFailures                prometheus.Counter
	dryRuns, differences, redundant     prometheus.Counter
	loops                               prometheus.Counter
}

// perType are what typeMetrics are taken from.
type perType struct {
	events                                                       *prometheus.CounterVec // by type and event
	lists, watchFailures, dryRuns, differences, redundant, loops *prometheus.CounterVec // by type
}

// The buckets of the histograms, in seconds: of what happens in the process,
// and of what takes requests.
func fastBuckets() []float64 { return prometheus.ExponentialBuckets(0.0001, 4, 10) }
func slowBuckets() []float64 { return prometheus.ExponentialBuckets(0.005, 2, 14) }

// newMetrics returns metrics that nobody can read yet.
func newMetrics() *metrics {
	m := &metrics{types: map[resource.Type]*typeMetrics{}, handlers: map[handlerCall]prometheus.Observer{}}
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
	for _, method := range []string{methodSync, methodFinalize} {
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

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.collectors = append(m.collectors, c)
	return c
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.collectors = append(m.collectors, h)
	return h
}

// register lets reg read the metrics. A second operator in the process shares
// their names, told apart by the label controller.
func (m *metrics) register(reg prometheus.Registerer, e *engine, leading func() bool, watchers func() []*watcher) error {
	for _, k := range e.types.all() {
		m.types[k.Type] = m.perType.of(k.Type.String())
	}
	m.collectors = append(m.collectors, newGauges(e, leading, watchers))
	reg = prometheus.WrapRegistererWith(prometheus.Labels{"controller": e.cfg.Name}, reg)
	if err := reg.Register(m); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

func (v *perType) of(name string) *typeMetrics {
	return &typeMetrics{
		added: v.events.WithLabelValues(name, "added"), modified: v.events.WithLabelValues(name, "modified"),
		deleted: v.events.WithLabelValues(name, "deleted"), bookmarks: v.events.WithLabelValues(name, "bookmark"),
		lists: v.lists.WithLabelValues(name), watchFailures: v.watchFailures.WithLabelValues(name),
		dryRuns: v.dryRuns.WithLabelValues(name), differences: v.differences.WithLabelValues(name),
		redundant: v.redundant.WithLabelValues(name), loops: v.loops.WithLabelValues(name),
	}
}

// Describe is a prometheus.Collector's.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(to)
	}
}

// Collect is a prometheus.Collector's.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(to)
	}
}

// passed counts a pass.
func (m *metrics) passed(d due, took time.Duration, firstWrite time.Time, failed bool) {
	m.duration.Observe(took.Seconds())
	m.wait.Observe(d.Waited.Seconds())
	if !d.Event.IsZero() && !firstWrite.IsZero() {
		m.eventToWrite.Observe(firstWrite.Sub(d.Event).Seconds())
	}
	if failed {
		m.failedSyncs.Inc()
	} else {
		m.syncs.Inc()
	}
}

// handled counts a call of the handler that has ended. One that ended because
// the operator stops has not failed.
func (m *metrics) handled(ctx context.Context, method string, took time.Duration, err error) {
	failed := err != nil && !errors.Is(ctx.Err(), context.Canceled)
	m.handlers[handlerCall{method, failed}].Observe(took.Seconds())
}

// wrote counts a write.
func (m *metrics) wrote(t resource.Type, verb string, r result) {
	outcome := "success"
	switch {
	case r.await:
		outcome = "conflict"
	case r.err != nil:
		outcome = "error"
	case r.redundant:
		m.types[t].redundant.Inc()
	case !r.wrote:
		return // a dry run
	}
	m.writes.WithLabelValues(t.String(), verb, outcome).Inc()
}

// corrected counts the differences that an action was to put right.
func (m *metrics) corrected(r *result) {
	switch r.action.verb {
	case verbUpdate, verbApply, verbRecreate:
		if r.wrote || r.err != nil || r.await {
			m.types[r.action.ref.Type].differences.Add(float64(len(r.action.diffs)))
		}
	}
}

// tried counts a request with dryRun=All.
func (m *metrics) tried(t resource.Type) {
	if m != nil && m.types[t] != nil {
		m.types[t].dryRuns.Inc()
	}
}

// finalizers counts a patch of a parent's finalizers.
func (m *metrics) finalizers(t resource.Type, err error) {
	if m != nil && m.types[t] != nil {
		m.wrote(t, "patch finalizers", result{wrote: err == nil, err: err})
	}
}

// of returns the metrics of a watched type.
func (m *metrics) of(t resource.Type) *typeMetrics {
	if m == nil {
		return nil
	}
	return m.types[t]
}
