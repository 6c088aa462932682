package observe

import (
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/resource"
)

// The types of an Event: Normal for changes that an operator is there to make,
// Warning for failures.
const (
	Normal  = corev1.EventTypeNormal
	Warning = corev1.EventTypeWarning
)

const (
	// MaxEventNote is the greatest length of an Event's note that the events API
	// takes, in bytes.
	MaxEventNote = 1024
	// maxEventField is the same for the reason and the reporting instance.
	maxEventField = 128
)

// The methods of a handler, by the names that metrics and spans have for them.
const (
	MethodSync     = "sync"
	MethodFinalize = "finalize"
)

// The reasons of the engine's Events on a parent. docs/reference/events.md says when
// each of them is recorded. Handlers record Events with reasons of their own.
const (
	ReasonCreated          = "Created"
	ReasonUpdated          = "Updated"
	ReasonRecreated        = "Recreated"
	ReasonRecreatedUntried = "RecreatedUntried"
	ReasonDeleted          = "Deleted"
	ReasonAdopted          = "Adopted"
	ReasonFinalized        = "Finalized"
	ReasonSyncFailed       = "SyncFailed"
	ReasonFinalizeFailed   = "FinalizeFailed"
	ReasonInvalidResponse  = "InvalidResponse"
	ReasonNameConflict     = "NameConflict"
	ReasonConflictLoop     = "ConflictLoop"
	ReasonWaiting          = "Waiting"
	ReasonPaused           = "Paused"
	ReasonAPIWarning       = "APIWarning"
	// ReasonUpdateIgnored is that of an Event about fields that an update has not changed.
	ReasonUpdateIgnored = "UpdateIgnored"
	// ReasonCorrectionRejected is that of an Event about drift that stays.
	ReasonCorrectionRejected = "CorrectionRejected"
)

// Tell records an Event on an object: of type kind, which is Normal or Warning, with
// a reason in CamelCase and a note for people. It never blocks, and may be called
// concurrently. A reason or note that is too long is shortened. Events about writes
// are dropped if there are too many of them.
func (s *EventSink) Tell(on *resource.Resource, kind, reason, note string) {
	switch reason {
	case ReasonCreated, ReasonUpdated, ReasonRecreated, ReasonDeleted, ReasonAdopted:
		s.recordWrite(newEvent(on, kind, reason, note))
	default:
		s.record(newEvent(on, kind, reason, note))
	}
}

// Relay is Tell for an Event of a handler, which is recorded whatever its reason is.
func (s *EventSink) Relay(on *resource.Resource, kind, reason, note string) {
	s.record(newEvent(on, kind, reason, note))
}

// TellState is Tell for a state in which an object is, such as that it is paused. An Event
// that another process has recorded about the state counts for this one, unless the object
// has come into it again since.
func (s *EventSink) TellState(on *resource.Resource, kind, reason, note string, again bool) {
	e := newEvent(on, kind, reason, note)
	e.Name = s.nameOfState(on, reason)
	s.enqueue(queuedEvent{e, again})
}

// newEvent returns an Event as Tell records it.
func newEvent(on *resource.Resource, kind, reason, note string) *eventsv1.Event {
	namespace := on.Namespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Regarding: corev1.ObjectReference{
			APIVersion: on.Type().APIVersion, Kind: on.Type().Kind,
			Namespace: on.Namespace(), Name: on.Name(), UID: on.UID(), ResourceVersion: on.ResourceVersion(),
		},
		Type: kind, Reason: Shorten(utf8Only(reason), maxEventField), Action: "Sync", Note: Shorten(utf8Only(note), MaxEventNote),
	}
}

// utf8Only returns a text as it can be sent: what is no UTF-8 would otherwise become longer on the way.
func utf8Only(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }
