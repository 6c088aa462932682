package schedule

import (
	"container/list"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/defaults"
)

// A Priority is the class in which a parent waits for its pass.
type Priority int

const (
	// Backlog is for parents without a known change: those of the first list or of
	// a relist, and retries of parents that keep failing.
	Backlog Priority = iota
	// Fresh is for parents that changed, or whose children did, and for parents
	// whose handler asked for a pass at this time.
	Fresh
)

// freshPerBacklog is how many fresh parents are taken in a row while others
// wait in the backlog.
const freshPerBacklog = 8

// A Trigger names the event that made a parent due, such as "Pod ns/name", for
// logs and traces. Handlers never see it.
type Trigger string

const (
	triggerOwnWrites Trigger = "own writes"
	triggerRetry     Trigger = "retry"
)

// TriggerResync is the Trigger of a pass that the handler has asked for, by Resync.
const TriggerResync Trigger = "resync"

// TriggerThrottled is the Trigger of a pass that was throttled, and now begins.
const TriggerThrottled Trigger = "throttle ended"

// A Cause says what another client has done that makes a parent due, as a set. The zero Cause is that none has done
// anything, as far as the scheduler is told: of a related object, the reconciliation finds that out.
type Cause uint8

// The causes.
const (
	Changed Cause = 1 << iota // it has changed the parent's status or a child, or has ended an object that was waited for
	Edited                    // it has edited or deleted the parent
)

// A Due is a parent whose pass starts now.
type Due struct {
	UID      types.UID
	Trigger  Trigger       // the first trigger since the last pass started
	More     int           // how many further triggers this pass answers
	Event    time.Time     // when the first trigger came that was a call of Add; zero: there was none
	Waited   time.Duration // since the reconciliation could have begun, had a worker and a slot been free
	Priority Priority      // the class in which the parent waited
	Cause    Cause         // of all triggers since the last pass started
	// Unasked says that nobody has asked for this pass, but passes that nobody had
	// asked for either: it has waited since they were too many.
	Unasked bool
}

// A Scheduler decides which parent has its next pass. Its methods may be called
// concurrently, and cost O(log n) with n waiting parents. It starts no goroutine:
// each caller of Next waits in its own. It remembers only the parents that are
// due, wait for a timer, run or have failed.
//
// A parent is queued at most once and has at most one pass at a time. Any number
// of adds during a pass lead to exactly one more. Fresh parents go before the
// backlog, but after eight of them the backlog gets a turn. Within a class the
// order is first in, first out, so that no parent can keep another one waiting,
// however often it is added. Only a follow-up (Outcome.Again) goes to the head, twice
// in a row at most: the status is to follow its children closely.
//
// After a failure the parent waits 100 ms, doubled with each further failure,
// times a random factor from 1 to 1.5, but never longer than the maximal backoff.
// The first success resets the backoff. A fresh add brings the retry forward,
// since someone may have fixed the cause, but to no earlier than 1 s after the
// failed pass, or its backoff if that is shorter. The failures count on, so that
// a failing parent whose own writes come back as changes runs at most once a
// second. A backlog add changes nothing for a failed parent.
//
// In a conflict loop the parent waits 1 s, doubled and jittered the same way with
// each further throttled pass, or 2 s each time (Outcome.Paced). Only an edit of the parent itself shortens this
// wait. The first pass that isn't throttled resets it.
//
// Passes that nothing but the pass before has asked for (Outcome.Again) wait, too, if
// they are more than ten a second for longer than a second: see Due.Unasked. Passes that
// have come a step further (Outcome.Step) don't count.
type Scheduler struct {
	maxBackoff time.Duration
	jitter     func() float64
	slots      *Slots

	wake   chan struct{} // holds a token while a waiting caller of Next should look again
	timer  *time.Timer   // set to the earliest of mu.timers; all callers of Next share it
	closed chan struct{} // closed by Close

	mu struct {
		*sync.Mutex // that of slots
		parents     map[types.UID]*parentEntry
		queues      [2]list.List // of *parentEntry, one for each Priority
		timers      parentTimers
		armed       time.Time // the time that timer is set to; zero: stopped
		running     int
		pending     int    // running parents that get one more pass
		passes      uint64 // ended so far
		closed      bool
	}
}

// New returns an empty scheduler whose callers of Next are all that bounds its
// reconciliations. A maxBackoff of zero or less means 10 minutes. jitter returns numbers
// from 0 to 1 that lengthen waits, and is never called concurrently. A nil jitter draws
// them at random.
func New(maxBackoff time.Duration, jitter func() float64) *Scheduler {
	return NewSharing(NewSlots(math.MaxInt), maxBackoff, jitter)
}

// NewSharing is New for a scheduler that shares these slots with others.
func NewSharing(slots *Slots, maxBackoff time.Duration, jitter func() float64) *Scheduler {
	if maxBackoff <= 0 {
		maxBackoff = defaults.MaxErrorBackoff
	}
	if jitter == nil {
		jitter = rand.Float64
	}
	s := &Scheduler{
		maxBackoff: maxBackoff,
		jitter:     jitter,
		slots:      slots,
		wake:       make(chan struct{}, 1),
		timer:      time.NewTimer(maxBackoff),
		closed:     make(chan struct{}),
	}
	s.timer.Stop()
	s.mu.Mutex = &slots.mu
	s.mu.parents = map[types.UID]*parentEntry{}
	return s
}

// Add makes a parent due: now, or after its running pass, or when its backoff or
// throttle allows. It never blocks, and does nothing after Close.
//
// An edit (Edited) also ends the parent's throttle: the parent is due now, but no
// earlier than half a second after the throttled pass. If a later pass is throttled
// again, the throttle starts anew at 1 s. So no client that keeps a conflict loop
// going can delay what is asked of the operator in the parent itself.
func (s *Scheduler) Add(uid types.UID, p Priority, why Trigger, cause Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	now := time.Now()
	s.expireLocked(now)
	e := s.mu.parents[uid]
	if e == nil {
		e = &parentEntry{uid: uid, parentTimer: parentTimer{timerIndex: -1}}
		s.mu.parents[uid] = e
	}
	e.cause |= cause
	if cause&Edited != 0 && !e.running {
		e.endThrottle()
	}
	switch {
	case e.running:
		if e.reasons == 0 {
			s.mu.pending++
		}
		e.note(why, now)
		e.priority = max(e.priority, p)
	case e.queued():
		e.note(why, now)
		s.enqueueLocked(e, p, now)
	case e.troubled() && p == Backlog:
		// The parent hasn't changed: its retry is enough, or it must not be retried.
	case e.notBefore.After(now):
		e.note(why, now)
		s.bringForwardLocked(e)
	default:
		e.note(why, now)
		s.enqueueLocked(e, p, now)
	}
}

// Next blocks until a parent is due and a slot is free, takes both, and marks the parent
// as running: the caller must call Done. It returns false once ctx has ended or Close was
// called, even if parents are due.
func (s *Scheduler) Next(ctx context.Context) (Due, bool) {
	s.slots.arrive(s)
	defer s.slots.leave(s)
	for {
		d, ok := s.take(ctx)
		if ok {
			return d, true
		}
		select {
		case <-s.closed:
			return Due{}, false
		case <-ctx.Done():
			return Due{}, false
		case <-s.wake:
		case <-s.timer.C:
		}
	}
}

// take is Next without waiting.
func (s *Scheduler) take(ctx context.Context) (Due, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return Due{}, false
	}
	if ctx.Err() != nil {
		s.signal() // the caller may have taken the token or the timer's: pass it on
		return Due{}, false
	}
	now := time.Now()
	s.expireLocked(now)
	e := s.slots.dequeueLocked(s)
	if e == nil {
		return Due{}, false
	}
	s.stopTimerLocked(e)
	d := Due{UID: e.uid, Trigger: e.why, More: e.reasons - 1, Event: e.event, Waited: now.Sub(e.since), Priority: e.priority, Cause: e.cause}
	d.Unasked = e.event.IsZero() && (e.restless || e.why == TriggerThrottled)
	e.running, e.ranAs, e.restless = true, e.priority, false
	e.priority, e.triggers = Backlog, triggers{}
	s.mu.running++
	return d, true
}

// Done ends the reconciliation of a parent that Next has returned, and frees its slot. It
// does nothing if the parent isn't running.
func (s *Scheduler) Done(uid types.UID, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.mu.parents[uid]
	if e == nil || !e.running {
		return
	}
	now := time.Now()
	s.expireLocked(now)
	e.running = false
	s.mu.running--
	s.mu.passes++
	defer s.slots.releaseLocked() // what this reconciliation leads to may go first
	if e.reasons > 0 {
		s.mu.pending--
	}
	if o.Forget {
		o = Outcome{Forget: true}
	}
	e.count(o, now)
	switch {
	case o.Throttled && !o.Unfinished, e.failures > 0:
		s.backOffLocked(e, o, now)
	case e.reasons > 0 || o.Again:
		s.repeatLocked(e, o, now)
	default:
		s.restLocked(e, o, now)
	}
}

// Activity returns how many passes are running, how many parents are due (a
// parent that waits for a timer isn't), and how many passes have ended so far.
func (s *Scheduler) Activity() (running, due int, passes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.expireLocked(time.Now())
	}
	return s.mu.running, s.queuedLocked() + s.mu.pending, s.mu.passes
}

// Failing returns the parents whose last pass has failed.
func (s *Scheduler) Failing() (failing []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, e := range s.mu.parents {
		if e.failures > 0 {
			failing = append(failing, uid)
		}
	}
	return failing
}

// Sizes adds to out how many parents the scheduler remembers, and how many of
// them have a timer.
func (s *Scheduler) Sizes(out map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out["scheduled parents"] = len(s.mu.parents)
	out["timers"] = len(s.mu.timers)
}

// Close makes Next return false from now on, also to callers that wait. Running
// passes may still be ended with Done. It may be called more than once.
func (s *Scheduler) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	s.mu.closed = true
	s.timer.Stop()
	close(s.closed)
}
