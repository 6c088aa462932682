package runner

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning

	// maxEventNote is what the events API takes, in bytes.
	maxEventNote = 1024
)

// An eventSink writes Events (events.k8s.io/v1) in the background; equal ones
// are counted rather than repeated.
type eventSink struct {
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorderLogger
}

// newEventSink starts what close stops.
func newEventSink(ctx context.Context, cfg *rest.Config, httpClient *http.Client, operator string) (*eventSink, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NoWarnings{}
	api, err := eventsv1.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: api})
	if err := b.StartRecordingToSinkWithContext(ctx); err != nil {
		b.Shutdown()
		return nil, fmt.Errorf("events: %w", err)
	}
	return &eventSink{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), operator)}, nil
}

func (s *eventSink) close() { s.broadcaster.Shutdown() }

// event records an Event on an object.
func (r *engine) event(on *resource.Resource, kind, reason, note string) {
	if r.events == nil || r.cfg.DryRun {
		return
	}
	r.events.recorder.Eventf(&corev1.ObjectReference{
		APIVersion: on.Type().APIVersion, Kind: on.Type().Kind,
		Namespace: on.Namespace(), Name: on.Name(), UID: on.UID(), ResourceVersion: on.ResourceVersion(),
	}, nil, kind, reason, "Sync", "%s", shorten(note, maxEventNote))
}

// emit records the handler's own Events.
func (p *pass) emit(list []handler.Event) {
	for _, e := range list {
		kind := e.Type
		if kind != warning {
			kind = normal
		}
		p.event(p.parent, kind, e.Reason, e.Message)
	}
}
