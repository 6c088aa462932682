package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	"k8s.io/client-go/util/flowcontrol"

	"github.com/roperator/roperator/internal/apierror"
)

const (
	// maxEventQueue bounds the Events that wait to be written; more are dropped.
	maxEventQueue = 1000
	// Of the Events that tell of writes, writeEventBurst may come at once, and
	// then writeEventRate a second; more are dropped. Where parents are many,
	// they would cost the API server as much as the writes.
	writeEventRate, writeEventBurst = 2, 25
	// eventSeriesGap is after how long an equal Event is told anew, and
	// maxEventSeries bounds of how many it is known that they were told.
	eventSeriesGap = 6 * time.Minute
	maxEventSeries = 4096
	// eventTries and eventRetryPause are for an API server that doesn't answer.
	eventTries      = 3
	eventRetryPause = 2 * time.Second
	// eventFlushTimeout bounds how long close waits for what is queued.
	eventFlushTimeout = 5 * time.Second
)

// The results of recording an Event, as metrics call them.
const (
	eventWritten = "written"
	eventCounted = "counted"
	eventDropped = "dropped"
	eventFailed  = "failed"
)

// An EventSink writes Events (events.k8s.io/v1) in the background, one after
// another. Of equal ones in a row only the first is written; the others are
// counted in it, and the count is written whenever it has doubled, so that
// neither a failing parent nor a talkative handler floods the API server. What
// differs in its note only is another Event: it says something else.
//
// An Event that can't be written is dropped: they are a courtesy, and nothing
// depends on them.
type EventSink struct {
	api                  typedeventsv1.EventsV1Interface
	controller, instance string
	log                  *slog.Logger
	counted              *prometheus.CounterVec // by result

	queue   chan *eventsv1.Event
	waiting atomic.Int64  // what was recorded and isn't dealt with yet
	done    chan struct{} // closed when the goroutine has ended
	cancel  context.CancelFunc
	limit   flowcontrol.PassiveRateLimiter // of Events that tell of writes

	mu struct {
		sync.Mutex
		closed bool
	}

	// Of the goroutine:
	series  map[eventKey]*eventSeries
	failing bool // the last Event couldn't be written
}

// An eventKey is what makes two Events equal.
type eventKey struct {
	regarding          types.UID
	kind, reason, note string
}

// An eventSeries is an Event that was written, and how often it was told since.
type eventSeries struct {
	namespace, name string
	count, written  int32
	last            time.Time
}

// start starts the goroutine that close ends.
func (s *EventSink) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.queue, s.done, s.cancel = make(chan *eventsv1.Event, maxEventQueue), make(chan struct{}), cancel
	s.series = map[eventKey]*eventSeries{}
	s.limit = flowcontrol.NewTokenBucketPassiveRateLimiter(writeEventRate, writeEventBurst)
	go func() {
		defer close(s.done)
		for e := range s.queue {
			s.write(ctx, e)
			s.waiting.Add(-1)
		}
	}()
}

// Close writes what was recorded, as far as that takes no longer than
// eventFlushTimeout, and returns when the goroutine has ended. What is recorded
// afterwards is dropped.
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

// Pending returns how many Events were recorded and aren't dealt with yet.
func (s *EventSink) Pending() int { return int(s.waiting.Load()) }

// recordWrite queues an Event that tells of writes, unless there were too many
// of late. It never blocks.
func (s *EventSink) recordWrite(e *eventsv1.Event) {
	if !s.limit.TryAccept() {
		s.counted.WithLabelValues(eventDropped).Inc()
		return
	}
	s.record(e)
}

// record queues an Event. It never blocks.
func (s *EventSink) record(e *eventsv1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	e.EventTime = metav1.NowMicro()
	s.waiting.Add(1)
	select {
	case s.queue <- e:
	default: // the log has it
		s.waiting.Add(-1)
		s.counted.WithLabelValues(eventDropped).Inc()
	}
}

// write writes an Event, or counts it.
func (s *EventSink) write(ctx context.Context, e *eventsv1.Event) {
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
			s.told(ctx, e, eventCounted, err)
			return
		}
	}
	e.Name = eventName(e.Regarding.Name)
	e.ReportingController, e.ReportingInstance = s.controller, s.instance
	err := s.persist(ctx, func() error {
		_, err := s.api.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	})
	s.told(ctx, e, eventWritten, err)
	if err == nil {
		s.sweep(at)
		s.series[key] = &eventSeries{namespace: e.Namespace, name: e.Name, count: 1, written: 1, last: at}
	}
}

// count writes how often an Event was told.
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

// persist tries a request again if the API server didn't answer it.
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

// told counts an Event, and logs that it wasn't written: of several in a row,
// the first. That a namespace which is being deleted takes no Events isn't
// worth a line.
func (s *EventSink) told(ctx context.Context, e *eventsv1.Event, result string, err error) {
	if err != nil {
		result = eventFailed
	}
	s.counted.WithLabelValues(result).Inc()
	if apierror.IsNamespaceTerminating(err) || ctx.Err() != nil {
		return
	}
	before := s.failing
	if s.failing = err != nil; before || !s.failing {
		return
	}
	s.log.WarnContext(ctx, "Event not written", "kind", e.Regarding.Kind, "namespace", e.Regarding.Namespace, "name", e.Regarding.Name,
		"reason", e.Reason, "error", err)
}

// sweep makes room for another series.
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

// eventName returns a name for an Event on the object with this name.
func eventName(regarding string) string {
	const most = 253 - 1 - 16
	regarding = strings.TrimRight(regarding[:min(len(regarding), most)], "-.")
	return fmt.Sprintf("%s.%016x", regarding, rand.Uint64())
}
