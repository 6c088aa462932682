package journal

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A ring has the newest Events of an operator.
type ring struct {
	events []toldEvent // grows up to maxEvents
	next   int         // the place of the oldest once it is full
}

// A toldEvent is an Event and the parent that it is about.
type toldEvent struct {
	Event
	parent types.UID
}

func (r *ring) add(e toldEvent) {
	if len(r.events) < maxEvents {
		r.events = append(r.events, e)
		return
	}
	r.events[r.next] = e
	r.next = (r.next + 1) % maxEvents
}

// of returns the newest Events of a parent, the newest first, and at most limit of them.
func (r *ring) of(parent types.UID, limit int) []Event {
	out := []Event{}
	for i := range r.events {
		at := (r.next - 1 - i + 2*len(r.events)) % len(r.events)
		if e := &r.events[at]; e.parent == parent {
			if out = append(out, e.Event); len(out) == limit {
				break
			}
		}
	}
	return out
}

// forget drops the Events of a parent.
func (r *ring) forget(parent types.UID) {
	for i := range r.events {
		if r.events[i].parent == parent {
			r.events[i] = toldEvent{}
		}
	}
}

// Tell keeps an Event about a parent.
func (j *Journal) Tell(now time.Time, parent types.UID, kind, reason, message string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.events.add(toldEvent{Event{now.UTC(), kind, reason, shorten(message)}, parent})
}
