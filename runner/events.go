package runner

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning

	// maxEventNote and maxEventField are what the events API takes, in bytes.
	maxEventNote  = 1024
	maxEventField = 128
)

// The reasons of the Events on a parent; docs/reference/events.md says when each
// is recorded. A handler adds its own.
const (
	reasonCreated         = "Created"
	reasonUpdated         = "Updated"
	reasonRecreated       = "Recreated"
	reasonDeleted         = "Deleted"
	reasonAdopted         = "Adopted"
	reasonFinalized       = "Finalized"
	reasonSyncFailed      = "SyncFailed"
	reasonFinalizeFailed  = "FinalizeFailed"
	reasonInvalidResponse = "InvalidResponse"
	reasonNameConflict    = "NameConflict"
	reasonConflictLoop    = "ConflictLoop"
)

// newEventSink starts what close stops.
func newEventSink(cfg *rest.Config, httpClient *http.Client, operator string, counted *prometheus.CounterVec, log *slog.Logger) (*eventSink, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.WarningHandler = rest.NoWarnings{}
	api, err := typedeventsv1.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	instance := operator
	if host, err := os.Hostname(); err == nil {
		instance += "-" + host
	}
	s := &eventSink{api: api, controller: operator, instance: shorten(instance, maxEventField), log: log, counted: counted}
	s.start()
	return s, nil
}

// event records an Event on an object.
func (r *engine) event(on *resource.Resource, kind, reason, note string) {
	if r.events == nil || r.cfg.DryRun {
		return
	}
	namespace := on.Namespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	record := r.events.record
	switch reason {
	case reasonCreated, reasonUpdated, reasonRecreated, reasonDeleted, reasonAdopted:
		record = r.events.recordWrite
	}
	record(&eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Regarding: corev1.ObjectReference{
			APIVersion: on.Type().APIVersion, Kind: on.Type().Kind,
			Namespace: on.Namespace(), Name: on.Name(), UID: on.UID(), ResourceVersion: on.ResourceVersion(),
		},
		Type: kind, Reason: shorten(reason, maxEventField), Action: "Sync", Note: shorten(note, maxEventNote),
	})
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
