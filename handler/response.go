package handler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A SyncResponse is what shall be. Beside an error it says what becomes of the
// parent's status all the same: its children are ignored then, see [Handler].
type SyncResponse struct {
	// Status becomes the parent's status, all of it: keys that are no longer
	// in it disappear. It is anything that marshals to JSON. The engine adds
	// observedGeneration to an object. Nil leaves the status alone.
	Status any
	// Children are all the children that shall exist; observed ones that are
	// not among them are deleted, so nil deletes every child. A child is
	// anything that marshals to a Kubernetes object: a pointer to a typed
	// object (TypeMeta may be left out for the kinds that client-go knows),
	// map[string]any, *unstructured.Unstructured, an apply configuration, or
	// the result of [Keep], [Leave], [After] or [When].
	Children []any
	// KeepChildren leaves the children as they are: Children is ignored.
	KeepChildren bool
	// Resync is when to sync again although nothing changed; 0 means never,
	// and beside an error the engine's backoff. It is dropped if another pass
	// has run by then. Less than a millisecond counts as one: a number without a unit
	// is in nanoseconds.
	Resync time.Duration
	// Events are recorded on the parent.
	Events []Event
}

// A FinalizeResponse is how far finalizing has got. The zero response releases
// nothing and asks for another try. Beside an error no response releases
// anything.
type FinalizeResponse struct {
	// Finalized releases the parent: the operator's finalizer is removed. The
	// status isn't written then. Beside an error it is ignored.
	Finalized bool
	// Status becomes the parent's status, as in SyncResponse.
	Status any
	// Children, if not nil, are those children that shall exist meanwhile: the others are
	// deleted, but for those of a type with config.Child.Retain. An empty list deletes
	// all. Nothing is created or changed. Finalize is called again as they go. Nil leaves all
	// children as they are. If Finalized, or beside an error, Children is ignored.
	Children []any
	// Retry is when to try again if not Finalized; 0 means the same backoff
	// as after an error. Less than a millisecond counts as one.
	Retry time.Duration
	// Events are recorded on the parent.
	Events []Event
}

// The types of an Event, so that a handler which needs nothing else of
// k8s.io/api doesn't import it for them.
const (
	EventNormal  = corev1.EventTypeNormal
	EventWarning = corev1.EventTypeWarning
)

// An Event is recorded on the parent as a Kubernetes Event. A mistake in its Type or Reason
// is logged once, and loses no message: an unknown Type means EventWarning, and an
// empty Reason "Unspecified".
type Event struct {
	Type    string // EventNormal or EventWarning; empty means EventNormal
	Reason  string // short, in CamelCase, for machines; at most 128 bytes are recorded
	Message string // for people; must hold nothing secret; at most 1,024 bytes are recorded
}
