package observe

import (
	"fmt"
	"log/slog"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/resource"
)

const (
	Normal  = corev1.EventTypeNormal
	Warning = corev1.EventTypeWarning

	// maxEventNote and maxEventField are what the events API takes, in bytes.
	MaxEventNote  = 1024
	maxEventField = 128
)

// The methods of a handler, as metrics and spans name them.
const (
	MethodSync     = "sync"
	MethodFinalize = "finalize"
)

// The reasons of the Events on a parent; docs/reference/events.md says when each
// is recorded. A handler adds its own.
const (
	ReasonCreated         = "Created"
	ReasonUpdated         = "Updated"
	ReasonRecreated       = "Recreated"
	ReasonDeleted         = "Deleted"
	ReasonAdopted         = "Adopted"
	ReasonFinalized       = "Finalized"
	ReasonSyncFailed      = "SyncFailed"
	ReasonFinalizeFailed  = "FinalizeFailed"
	ReasonInvalidResponse = "InvalidResponse"
	ReasonNameConflict    = "NameConflict"
	ReasonConflictLoop    = "ConflictLoop"
)

// NewEventSink returns a sink that records Events on objects as those of an
// operator. It starts the goroutine that close ends.
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

// Tell records an Event on an object. It never blocks. Too long a reason or note
// is cut short.
func (s *EventSink) Tell(on *resource.Resource, kind, reason, note string) {
	namespace := on.Namespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	record := s.record
	switch reason {
	case ReasonCreated, ReasonUpdated, ReasonRecreated, ReasonDeleted, ReasonAdopted:
		record = s.recordWrite
	}
	record(&eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Regarding: corev1.ObjectReference{
			APIVersion: on.Type().APIVersion, Kind: on.Type().Kind,
			Namespace: on.Namespace(), Name: on.Name(), UID: on.UID(), ResourceVersion: on.ResourceVersion(),
		},
		Type: kind, Reason: Shorten(reason, maxEventField), Action: "Sync", Note: Shorten(note, MaxEventNote),
	})
}
