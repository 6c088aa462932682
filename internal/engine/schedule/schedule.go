package schedule

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/defaults"
)

// A Priority is the class in which a parent waits for its pass.
type Priority int

const (
	// backlog is for parents of which nobody knows a change: the first list, a
	// relist, and retries of parents that keep failing.
	Backlog Priority = iota
	// fresh is for parents of which something changed, or that are due by a
	// timer that their handler asked for.
	Fresh
)

// freshPerBacklog is how many fresh parents are taken in a row while others
// wait in the backlog.
const freshPerBacklog = 8

// A Trigger is what made a parent due, for logs and traces: "parent",
// "child Pod ns/name". Handlers never see it.
type Trigger string

const (
	triggerOwnWrites Trigger = "own writes"
	triggerResync    Trigger = "resync"
	triggerRetry     Trigger = "retry"
	triggerThrottled Trigger = "throttle ended"
)

// A Due is a parent whose pass starts now.
type Due struct {
	UID      types.UID
	Trigger  Trigger       // the first of what made it due
	More     int           // how many further triggers were coalesced into it
	Event    time.Time     // when the first of them came that was news; zero: none
	Waited   time.Duration // since it could have run
	Priority Priority
}

// An Outcome is how a pass ended. The zero outcome is a success that leaves no
// work behind. Where several are set, Forget comes before everything; the next
// pass after a failure or in a loop waits for its backoff, also if Again is
// set; and of Resync and RetryAfter the sooner counts.
type Outcome struct {
	Err        bool          // failed: retried with exponential backoff
	Permanent  bool          // failed: no retry, only a fresh add, Again, Resync or RetryAfter lead to another pass
	Again      bool          // something was written: due again at once, in the class of this pass
	Resync     time.Duration // the handler asked for another pass; dropped if one starts earlier
	Throttled  bool          // in a conflict loop: the next pass waits, whatever happens meanwhile
	Forget     bool          // the parent is gone: its state is dropped
	RetryAfter time.Duration // when to try again: after a failure in place of the backoff, also if it is permanent; dropped if a pass starts earlier
}

// A Scheduler says which parent is synced next. Its methods may be called
// concurrently, and cost O(log n) with n waiting parents. It starts no
// goroutine: whoever calls next waits by itself. It remembers nothing of a
// parent that neither is due, nor waits for a timer, nor has failed.
//
// A parent is queued at most once and has at most one pass at a time; what is
// added during a pass leads to exactly one more. Fresh parents go before the
// backlog, but after eight of them the backlog gets a turn; within a class the
// order is first in, first out, so that no parent can keep another one waiting,
// however often it is added.
//
// After a failure the parent waits 100 ms, doubled with each further failure,
// times a random factor from 1 to 1.5, never more than the maximal backoff. The
// first success resets it. A fresh add brings the retry forward (somebody may
// have fixed what was wrong), but to no earlier than 1 s after the pass that
// failed, or its backoff if that is shorter, and failures still count: a
// failing parent whose own writes come back as changes runs once a second at
// most. A backlog add changes nothing for a failed parent.
//
// In a conflict loop the parent waits 1 s, doubled and jittered the same way
// with each further throttled pass, and nothing shortens that. A pass that
// isn't throttled any more resets it.
type Scheduler struct {
	maxBackoff time.Duration
	rnd        func() float64

	wake   chan struct{} // holds a token while somebody who waits should look
	timer  *time.Timer   // set to the earliest of mu.timers; those who wait share it
	closed chan struct{}

	mu struct {
		sync.Mutex
		parents map[types.UID]*parentEntry
		queues  [2]list.List // of *parentEntry, by priority
		timers  parentTimers
		armed   time.Time // what timer is set to; zero: stopped
		streak  int       // fresh parents taken since the backlog had its turn
		running int
		pending int // running parents that get one more pass
		passes  uint64
		closed  bool
	}
}

// New returns an empty scheduler. A maxBackoff of 0 means 10 minutes.
// rnd returns numbers from 0 to 1 for the jitter and is never called
// concurrently; nil means math/rand/v2.
func New(maxBackoff time.Duration, rnd func() float64) *Scheduler {
	if maxBackoff <= 0 {
		maxBackoff = defaults.MaxErrorBackoff
	}
	if rnd == nil {
		rnd = rand.Float64
	}
	s := &Scheduler{
		maxBackoff: maxBackoff,
		rnd:        rnd,
		wake:       make(chan struct{}, 1),
		timer:      time.NewTimer(maxBackoff),
		closed:     make(chan struct{}),
	}
	s.timer.Stop()
	s.mu.parents = map[types.UID]*parentEntry{}
	return s
}

// Add makes the parent due: now, or after the pass that is running, or when
// its backoff or throttle allows. It never blocks, and does nothing after close.
func (s *Scheduler) Add(uid types.UID, p Priority, why Trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	now := time.Now()
	s.expireLocked(now)
	e := s.mu.parents[uid]
	if e == nil {
		e = &parentEntry{uid: uid, timerIndex: -1}
		s.mu.parents[uid] = e
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
		// Nothing changed: its retry will do, or it isn't to be retried.
	case e.notBefore.After(now):
		e.note(why, now)
		s.bringForwardLocked(e)
	default:
		e.note(why, now)
		s.enqueueLocked(e, p, now)
	}
}

// Next blocks until a parent is due, and marks it as running: the caller must
// call done. It returns false once ctx has ended or close was called, also if
// parents are due.
func (s *Scheduler) Next(ctx context.Context) (Due, bool) {
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

// take is next without waiting.
func (s *Scheduler) take(ctx context.Context) (Due, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return Due{}, false
	}
	if ctx.Err() != nil {
		s.signal() // the caller may have come with the token of another one
		return Due{}, false
	}
	now := time.Now()
	s.expireLocked(now)
	e := s.dequeueLocked()
	if e == nil {
		return Due{}, false
	}
	if s.queuedLocked() > 0 {
		s.signal()
	}
	s.stopTimerLocked(e)
	d := Due{UID: e.uid, Trigger: e.why, More: e.reasons - 1, Event: e.event, Waited: now.Sub(e.since), Priority: e.priority}
	e.running, e.ranAs = true, e.priority
	e.priority, e.why, e.reasons, e.event = Backlog, "", 0, time.Time{}
	s.mu.running++
	return d, true
}

// Done ends the pass that next has handed out. It does nothing for a parent
// that isn't running.
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
	if e.reasons > 0 {
		s.mu.pending--
	}
	if o.Forget {
		o = Outcome{Forget: true}
	}
	e.count(o)
	switch {
	case o.Throttled || e.failures > 0:
		s.backOffLocked(e, o, now)
	case e.reasons > 0 || o.Again:
		s.repeatLocked(e, o.Again, now)
	default:
		s.restLocked(e, o, now)
	}
}

// Activity returns how many passes are running, how many parents are due
// (those that wait for a timer aren't), and how many passes have ended so far.
func (s *Scheduler) Activity() (running, due int, passes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.expireLocked(time.Now())
	}
	return s.mu.running, s.queuedLocked() + s.mu.pending, s.mu.passes
}

// Sizes adds to out how many entries there are of each kind.
func (s *Scheduler) Sizes(out map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out["scheduled parents"] = len(s.mu.parents)
	out["timers"] = len(s.mu.timers)
}

// Close makes next return false from now on. Passes that are running may still
// be ended with done. It may be called more than once.
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

// Merge returns the outcome of a pass of which o and other are parts.
func (o Outcome) Merge(other Outcome) Outcome {
	o.Again = o.Again || other.Again
	o.Throttled = o.Throttled || other.Throttled
	o.Resync = Soonest(o.Resync, other.Resync)
	return o
}

// Soonest returns the shorter of two delays, of which zero means none.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
