package schedule

import (
	"container/heap"
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A parentEntry is a scheduler's state of one parent. The parent is running, or
// queued, or waits for its timer, or has failed for good and waits for a change.
// A parent that is queued in the backlog may have a timer too: when the timer
// expires, the parent moves up.
type parentEntry struct {
	uid types.UID

	running bool
	ranAs   Priority // the class of the running or last pass

	triggers
	priority Priority      // the class in which it is queued, or will be after the running pass
	since    time.Time     // when it was queued, or its timer expired
	elem     *list.Element // its element in the queue of its priority; nil: not queued
	place    int64         // the number of its place, if it is queued: see Slots

	parentTimer

	failures int // passes in a row that failed
	// failingSince is when the first of these ended; zero: none has failed.
	failingSince time.Time
	throttles    int       // passes in a row that were throttled
	notBefore    time.Time // no pass starts earlier; zero unless failed or throttled
	// unthrottled is what notBefore becomes if an edit ends the throttle.
	unthrottled time.Time

	paid     time.Time // what the passes that nobody asked for have used up: see unasked
	restless bool      // the next pass was held back by unaskedInterval
	ahead    int       // follow-ups in a row that came before other parents: see maxAhead
}

// The triggers are those since the last pass started.
type triggers struct {
	reasons int       // how many there were
	why     Trigger   // the first one
	event   time.Time // when the first of them came that was a call of Add; zero: none
	cause   Cause     // of all of them
}

// A parentTimer is the timer of one parent.
type parentTimer struct {
	timerIndex int       // its place in parentTimers; -1: no timer
	timerAt    time.Time // when it expires,
	timerAs    Priority  // the class in which the parent is queued then,
	timerWhy   Trigger   // and its trigger
}

func (e *parentEntry) queued() bool   { return e.elem != nil }
func (e *parentEntry) troubled() bool { return e.failures > 0 || e.throttles > 0 }

// note counts a trigger, and keeps the first one. at is when Add was called; zero
// for a trigger of the scheduler's own.
func (e *parentEntry) note(why Trigger, at time.Time) {
	if e.event.IsZero() {
		e.event = at
	}
	if e.reasons == 0 {
		e.why = why
	}
	e.reasons++
}

// enqueueLocked puts a parent at the end of the queue of a class. A parent that is
// queued already keeps its place, unless it moves up from the backlog.
func (s *Scheduler) enqueueLocked(e *parentEntry, p Priority, since time.Time) {
	if e.queued() {
		if p <= e.priority {
			return
		}
		s.mu.queues[e.priority].Remove(e.elem)
	} else {
		e.since = since
	}
	s.slots.tail++
	e.priority, e.place = p, s.slots.tail
	e.elem = s.mu.queues[p].PushBack(e)
	s.signal()
}

// enqueueFirstLocked puts a parent that isn't queued at the head of the queue of a class.
func (s *Scheduler) enqueueFirstLocked(e *parentEntry, p Priority, since time.Time) {
	s.slots.head--
	e.since, e.priority, e.place = since, p, s.slots.head
	e.elem = s.mu.queues[p].PushFront(e)
	s.signal()
}

func (s *Scheduler) queuedLocked() int {
	return s.mu.queues[Fresh].Len() + s.mu.queues[Backlog].Len()
}

// signal makes one of the waiting callers of Next look again.
func (s *Scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// startTimerLocked starts the parent's timer, or sets the running one anew. The
// trigger counts only if the parent has no other when the timer expires.
func (s *Scheduler) startTimerLocked(e *parentEntry, at time.Time, p Priority, why Trigger) {
	e.timerAt, e.timerAs, e.timerWhy = at, p, why
	if e.timerIndex < 0 {
		heap.Push(&s.mu.timers, e)
	} else {
		heap.Fix(&s.mu.timers, e.timerIndex)
	}
	s.armLocked()
}

func (s *Scheduler) stopTimerLocked(e *parentEntry) {
	if e.timerIndex < 0 {
		return
	}
	heap.Remove(&s.mu.timers, e.timerIndex)
	s.armLocked()
}

// expireLocked queues the parents whose timers have expired, the earliest first.
func (s *Scheduler) expireLocked(now time.Time) {
	expired := false
	for len(s.mu.timers) > 0 && !s.mu.timers[0].timerAt.After(now) {
		e := s.mu.timers[0]
		heap.Pop(&s.mu.timers)
		if e.reasons == 0 {
			e.note(e.timerWhy, time.Time{})
		}
		s.enqueueLocked(e, e.timerAs, e.timerAt)
		expired = true
	}
	if expired {
		s.armLocked()
	}
}

// armLocked sets the timer that all callers of Next share to the earliest of the
// parents' timers.
func (s *Scheduler) armLocked() {
	var at time.Time
	if len(s.mu.timers) > 0 && !s.mu.closed {
		at = s.mu.timers[0].timerAt
	}
	switch {
	case at.Equal(s.mu.armed):
		return
	case at.IsZero():
		s.timer.Stop()
	default:
		s.timer.Reset(time.Until(at))
	}
	s.mu.armed = at
}

// parentTimers is a heap of the parents that have a timer, the earliest first, for
// container/heap.
type parentTimers []*parentEntry

func (t parentTimers) Len() int           { return len(t) }
func (t parentTimers) Less(i, j int) bool { return t[i].timerAt.Before(t[j].timerAt) }

func (t parentTimers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timerIndex, t[j].timerIndex = i, j
}

// Push appends a *parentEntry.
func (t *parentTimers) Push(x any) {
	if e, ok := x.(*parentEntry); ok {
		e.timerIndex = len(*t)
		*t = append(*t, e)
	}
}

// Pop removes the last parent and returns it.
func (t *parentTimers) Pop() any {
	last := len(*t) - 1
	e := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	e.timerIndex = -1
	return e
}
