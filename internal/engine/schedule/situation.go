package schedule

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Situation is what a scheduler knows of one parent. The zero Situation is that of a parent
// whose last pass has left nothing to do.
type Situation struct {
	Running bool    // a pass is under way
	Queued  bool    // the parent waits for a worker
	Place   int     // of Queued: how many parents of the same scheduler have their turn before this one
	Trigger Trigger // of Queued and Next: what the pass is for

	Next      time.Time // when the parent becomes due by itself; zero: never
	Failures  int       // how many passes in a row have failed
	Since     time.Time // when the first of these ended; zero: none has failed
	Throttles int       // how many passes in a row were throttled
}

// Situation returns what is known of the parent with this UID.
func (s *Scheduler) Situation(uid types.UID) Situation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.situationLocked(uid)
	if out.Queued {
		out.Place = s.placeLocked(s.mu.parents[uid])
	}
	return out
}

// Glance returns the Situation but for the Place, which takes as long to find as the queue is.
func (s *Scheduler) Glance(uid types.UID) Situation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.situationLocked(uid)
}

// situationLocked returns the Situation but for the Place.
func (s *Scheduler) situationLocked(uid types.UID) Situation {
	if !s.mu.closed {
		s.expireLocked(time.Now())
	}
	e := s.mu.parents[uid]
	if e == nil {
		return Situation{}
	}
	out := Situation{Running: e.running, Queued: e.queued(), Trigger: e.why, Failures: e.failures, Since: e.failingSince, Throttles: e.throttles}
	if e.timerIndex >= 0 {
		out.Next = e.timerAt
		if out.Trigger == "" {
			out.Trigger = e.timerWhy
		}
	}
	return out
}

// placeLocked returns how many parents are in the queue of a parent's class before it, and, for
// one in the backlog, in that of the fresh ones, all of which go first but for every ninth turn.
func (s *Scheduler) placeLocked(e *parentEntry) int {
	place := 0
	if e.priority == Backlog {
		place = s.mu.queues[Fresh].Len()
	}
	for before := e.elem.Prev(); before != nil; before = before.Prev() {
		place++
	}
	return place
}
