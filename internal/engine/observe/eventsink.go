package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/resource"
)

const (
	// maxEventQueue bounds the Events that wait to be written; more are dropped.
	maxEventQueue = 1000
	// Of the Events about writes, writeEventBurst may come at once, and then
	// writeEventRate a second; more are dropped. For many parents they would cost
	// the API server as much as the writes themselves.
	writeEventRate, writeEventBurst = 2, 25
	// eventSeriesGap is the pause after which an equal Event is written as a new
	// one instead of being counted in the old one.
	eventSeriesGap = 6 * time.Minute
	// maxForbidden bounds how many namespaces the log says of that Events are forbidden.
	maxForbidden = 20
	// maxEventSeries bounds the number of Events that later ones are compared with.
	maxEventSeries = 4096
	// eventTries is how often a request is sent that the API server doesn't
	// answer, and eventRetryPause the pause between two tries.
	eventTries      = 3
	eventRetryPause = 2 * time.Second
	// eventFlushTimeout bounds how long Close waits for the queued Events.
	eventFlushTimeout = 5 * time.Second
)

// The results of recording an Event, by the names that metrics have for them.
const (
	eventWritten = "written"
	eventCounted = "counted"
	eventDropped = "dropped"
	eventFailed  = "failed"
)

// An EventSink writes Events (events.k8s.io/v1) in the background, one after
// another. Its methods may be called concurrently.
//
// Of equal Events only the first is written; the others are counted in it. The
// count is written whenever it has doubled, so that neither a failing parent nor a
// talkative handler floods the API server. Events that differ in their notes aren't
// equal.
//
// An Event that can't be written is dropped, since nothing depends on Events.
type EventSink struct {
	api                  typedeventsv1.EventsV1Interface
	controller, instance string
	log                  *slog.Logger
	counted              *prometheus.CounterVec // by result

	queue   chan queuedEvent
	waiting atomic.Int64  // Events that were recorded and are neither written nor dropped yet
	done    chan struct{} // closed when the goroutine has ended
	cancel  context.CancelFunc
	limit   flowcontrol.PassiveRateLimiter // of Events about writes

	mu struct {
		sync.Mutex
		closed bool
	}

	// The goroutine owns these:
	series    map[eventKey]*eventSeries
	failing   bool                      // the last Event couldn't be written, and not for want of a right
	forbidden map[eventRequest]struct{} // what RBAC forbade when it was last asked for
}

// An eventRequest is a kind of request about Events, for which there is an RBAC rule.
type eventRequest struct{ verb, namespace string }

// A queuedEvent is an Event that waits to be written.
type queuedEvent struct {
	*eventsv1.Event
	// again says of an Event with a name that it is to be written under another one if
	// there is one of this name.
	again bool
}

// An eventKey has the same value for two Events that are equal.
type eventKey struct {
	regarding          types.UID
	kind, reason, note string
}

// An eventSeries is an Event that was written, with its count.
type eventSeries struct {
	namespace, name string
	count, written  int32     // how often it was recorded; the count that was last written
	last            time.Time // when it was last recorded
}

// NewEventSink returns a sink that records the Events of an operator. counted, which
// must not be nil, counts the results. NewEventSink starts a goroutine, which the caller ends with Close.
func NewEventSink(cfg *rest.Config, httpClient *http.Client, operator string, counted *Metrics, log *slog.Logger) (*EventSink, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.WarningHandler = rest.NoWarnings{}
	api, err := typedeventsv1.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	instance := operator
	if host := process.Hostname(); host != "" {
		instance += "-" + host
	}
	s := &EventSink{api: api, controller: operator, instance: Shorten(instance, maxEventField), log: log, counted: counted.events}
	s.start()
	return s, nil
}

// start starts the goroutine that Close ends.
func (s *EventSink) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.queue, s.done, s.cancel = make(chan queuedEvent, maxEventQueue), make(chan struct{}), cancel
	s.series, s.forbidden = map[eventKey]*eventSeries{}, map[eventRequest]struct{}{}
	s.limit = flowcontrol.NewTokenBucketPassiveRateLimiter(writeEventRate, writeEventBurst)
	go func() {
		defer close(s.done)
		for e := range s.queue {
			s.write(ctx, e)
			s.waiting.Add(-1)
		}
	}()
}

// Close writes the queued Events, for up to eventFlushTimeout, and returns when the
// goroutine has ended. Events that are recorded afterwards are dropped. Close may be
// called more than once.
func (s *EventSink) Close() {
	s.mu.Lock()
	if !s.mu.closed {
		s.mu.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	timer := time.AfterFunc(eventFlushTimeout, s.cancel)
	defer timer.Stop()
	<-s.done
	s.cancel()
}

// Pending returns how many Events are queued or being written.
func (s *EventSink) Pending() int { return int(s.waiting.Load()) }

// recordWrite queues an Event about writes, unless there were too many of them
// lately. It never blocks.
func (s *EventSink) recordWrite(e *eventsv1.Event) {
	if !s.limit.TryAccept() {
		s.counted.WithLabelValues(eventDropped).Inc()
		return
	}
	s.record(e)
}

// record queues an Event, or drops it if the queue is full. It never blocks.
func (s *EventSink) record(e *eventsv1.Event) { s.enqueue(queuedEvent{Event: e}) }

// enqueue is record for an Event that has a name, perhaps.
func (s *EventSink) enqueue(e queuedEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	e.EventTime = metav1.NowMicro()
	s.waiting.Add(1)
	select {
	case s.queue <- e:
	default: // dropped: the log has the same text
		s.waiting.Add(-1)
		s.counted.WithLabelValues(eventDropped).Inc()
	}
}

// write writes an Event, or counts it in an equal one.
func (s *EventSink) write(ctx context.Context, queued queuedEvent) {
	e := queued.Event
	if ctx.Err() != nil {
		return
	}
	key := eventKey{regarding: e.Regarding.UID, kind: e.Type, reason: e.Reason, note: e.Note}
	at := e.EventTime.Time
	known := s.series[key]
	if known != nil && at.Sub(known.last) <= eventSeriesGap {
		known.count++
		known.last = at
		if known.count < 2*known.written {
			s.counted.WithLabelValues(eventCounted).Inc()
			return
		}
		known.written = known.count
		err := s.persist(ctx, func() error { return s.count(ctx, known) })
		if !apierrors.IsNotFound(err) {
			s.told(ctx, e, eventRequest{"patch", known.namespace}, eventCounted, err)
			return
		}
	}
	if e.Name == "" {
		e.Name = eventName(e.Regarding.Name, rand.Uint64())
	}
	e.ReportingController, e.ReportingInstance = s.controller, s.instance
	err := s.create(ctx, e)
	if apierrors.IsAlreadyExists(err) && queued.again {
		e.Name = eventName(e.Regarding.Name, rand.Uint64())
		err = s.create(ctx, e)
	}
	result := eventWritten
	if apierrors.IsAlreadyExists(err) { // it has been told
		result, err = eventCounted, nil
	}
	s.told(ctx, e, eventRequest{"create", e.Namespace}, result, err)
	if err == nil {
		s.sweep(at)
		s.series[key] = &eventSeries{namespace: e.Namespace, name: e.Name, count: 1, written: 1, last: at}
	}
}

// create writes a new Event.
func (s *EventSink) create(ctx context.Context, e *eventsv1.Event) error {
	return s.persist(ctx, func() error {
		_, err := s.api.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	})
}

// count writes the count of an Event.
func (s *EventSink) count(ctx context.Context, of *eventSeries) error {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{
		Count: of.count, LastObservedTime: metav1.NewMicroTime(of.last),
	}})
	if err != nil {
		return err
	}
	_, err = s.api.Events(of.namespace).Patch(ctx, of.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// persist sends a request, up to eventTries times if the API server doesn't answer.
func (s *EventSink) persist(ctx context.Context, try func() error) error {
	for tries := 1; ; tries++ {
		err := try()
		var status apierrors.APIStatus
		if err == nil || errors.As(err, &status) || errors.Is(err, apierror.ErrNoLease) || tries == eventTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(eventRetryPause):
		}
	}
}

// told counts the result of an Event. It logs the first of several failures in a
// row, except that a namespace which is being deleted takes no Events. That RBAC forbids
// a request is logged once for each namespace, with the rule to add, until a request there
// succeeds.
func (s *EventSink) told(ctx context.Context, e *eventsv1.Event, asked eventRequest, result string, err error) {
	if err != nil {
		result = eventFailed
	}
	s.counted.WithLabelValues(result).Inc()
	if apierror.IsNamespaceTerminating(err) || ctx.Err() != nil {
		return
	}
	err = apierror.WithRule(err, apierror.Request{Verb: asked.verb, Group: eventsv1.GroupName, Resource: "events"})
	if _, lacks := errors.AsType[*apierror.ForbiddenError](err); lacks {
		if s.forbids(asked) {
			return
		}
	} else {
		delete(s.forbidden, asked)
		before := s.failing
		if s.failing = err != nil; before || !s.failing {
			return
		}
	}
	s.log.WarnContext(ctx, "Event not written", "kind", e.Regarding.Kind, "namespace", e.Regarding.Namespace, "name", e.Regarding.Name,
		"reason", e.Reason, "error", err)
}

// forbids notes that RBAC forbids a request, and says whether that was known.
func (s *EventSink) forbids(asked eventRequest) (known bool) {
	_, known = s.forbidden[asked]
	if len(s.forbidden) >= maxForbidden {
		return true // the log has said it often enough
	}
	s.forbidden[asked] = struct{}{}
	return known
}

// sweep makes room for another series: it drops those that are over, or all if none
// of them is.
func (s *EventSink) sweep(now time.Time) {
	if len(s.series) < maxEventSeries {
		return
	}
	for key, of := range s.series {
		if now.Sub(of.last) > eventSeriesGap {
			delete(s.series, key)
		}
	}
	if len(s.series) >= maxEventSeries {
		clear(s.series)
	}
}

// eventName returns the name for an Event on the object with the name regarding. number
// tells the Events on one object apart.
func eventName(regarding string, number uint64) string {
	const most = 253 - 1 - 16
	regarding = strings.TrimRight(regarding[:min(len(regarding), most)], "-.")
	return fmt.Sprintf("%s.%016x", regarding, number)
}

// nameOfState returns the name for an Event about a state in which an object is, which is the
// reason. It is the same in another process.
func (s *EventSink) nameOfState(on *resource.Resource, reason string) string {
	hash := fnv.New64a()
	for _, part := range []string{s.controller, reason, string(on.UID())} {
		_, _ = hash.Write(append([]byte(part), 0)) // never fails
	}
	return eventName(on.Name(), hash.Sum64())
}
