package schedule

import "time"

const (
	errorBackoffBase    = 100 * time.Millisecond
	throttleBackoffBase = time.Second
	// pacedInterval is the time between the passes of a parent whose many writes may have a legitimate cause.
	pacedInterval = 2 * time.Second

	// earlyRetryInterval is the least time between two passes over a failing
	// parent that keeps changing, unless the parent's backoff is shorter.
	earlyRetryInterval = time.Second
	// editInterval is the least time between a throttled pass and the pass after an
	// edit of the parent. It bounds what someone can cause who edits the parent
	// whenever the operator writes a child.
	editInterval = 500 * time.Millisecond
	// promptRetries is how many failures in a row are retried in the class of the
	// failed pass. Later ones are retried in the backlog. One short outage must
	// not put a user's change behind 100,000 parents that wait since the start.
	promptRetries = 3

	// maxAhead is how many follow-ups in a row come before the other parents of their class: as a rule one
	// that writes the status, and one that finds nothing to do.
	maxAhead = 2

	// unaskedInterval is the least time between two passes that nothing but the pass
	// before has asked for, and unaskedBurst how much of that time may be owed. So a
	// parent has at most ten such passes a second, after the first ten.
	unaskedInterval = 100 * time.Millisecond
	unaskedBurst    = time.Second
)

// count counts the failures and throttled passes in a row, on which the backoffs
// depend.
func (e *parentEntry) count(o Outcome, now time.Time) {
	e.notBefore = time.Time{}
	if e.failures++; e.failures == 1 {
		e.failingSince = now
	}
	if !o.Err && !o.Permanent {
		e.failures, e.failingSince = 0, time.Time{}
	}
	switch {
	case o.Unfinished && o.Throttled:
	case o.Throttled:
		e.throttles++
	default:
		e.throttles = 0
	}
}

// backOffLocked makes a parent wait after a pass that failed or was throttled.
func (s *Scheduler) backOffLocked(e *parentEntry, o Outcome, now time.Time) {
	e.ahead = 0
	changed := e.reasons > 0 && e.priority == Fresh
	if !changed {
		e.triggers = triggers{} // a relist: the retry answers it
	}
	var retry, floor time.Duration
	retryAs := Backlog
	if e.failures > 0 {
		if retry = o.RetryAfter; retry <= 0 {
			retry = s.backoff(errorBackoffBase, e.failures)
		}
		floor = min(retry, earlyRetryInterval)
		if e.failures <= promptRetries {
			retryAs = e.ranAs
		}
	}
	unthrottled := max(floor, editInterval)
	if o.Throttled {
		wait := pacedInterval
		if !o.Paced {
			wait = s.backoff(throttleBackoffBase, e.throttles)
		}
		floor = max(retry, wait)
		retry, retryAs = floor, Backlog
	}
	e.notBefore, e.unthrottled = now.Add(floor), now.Add(min(floor, unthrottled))
	retried := !o.Permanent || o.Again || o.RetryAfter > 0
	switch {
	case o.Throttled && retried:
		s.startTimerLocked(e, now.Add(retry), retryAs, TriggerThrottled)
	case retried:
		s.startTimerLocked(e, now.Add(retry), retryAs, triggerRetry)
	case o.Resync > 0:
		s.startTimerLocked(e, now.Add(max(floor, o.Resync)), Fresh, TriggerResync)
	}
	if changed {
		s.bringForwardLocked(e)
	}
}

// endThrottle ends the throttle of a parent, if there is one. The next throttle
// starts at its base.
func (e *parentEntry) endThrottle() {
	if e.throttles > 0 {
		e.throttles, e.notBefore = 0, e.unthrottled
	}
}

// bringForwardLocked lets a changed parent run as early as its backoff allows.
func (s *Scheduler) bringForwardLocked(e *parentEntry) {
	if e.cause&Edited != 0 {
		e.endThrottle()
	}
	p := Fresh
	if e.throttles > 0 {
		p = Backlog
	}
	s.startTimerLocked(e, e.notBefore, p, triggerRetry)
}

// repeatLocked makes a parent due again at once after its pass. A follow-up comes before the other parents of
// its class: it writes the status of the children that the pass has written.
func (s *Scheduler) repeatLocked(e *parentEntry, o Outcome, now time.Time) {
	if !o.Again {
		e.ahead = 0
		s.enqueueLocked(e, e.priority, now)
		return
	}
	if e.reasons == 0 && !o.Step {
		if wait := e.unasked(now); wait > 0 {
			e.restless = true
			s.startTimerLocked(e, now.Add(wait), e.ranAs, triggerOwnWrites)
			return
		}
	}
	e.note(triggerOwnWrites, time.Time{})
	if e.ahead++; e.ahead > maxAhead {
		e.ahead = 0
		s.enqueueLocked(e, max(e.priority, e.ranAs), now)
		return
	}
	s.enqueueFirstLocked(e, max(e.priority, e.ranAs), now)
}

// unasked counts a pass that nothing but the pass before has asked for, and returns how
// long it has to wait.
func (e *parentEntry) unasked(now time.Time) time.Duration {
	if e.paid.Before(now) {
		e.paid = now
	}
	e.paid = e.paid.Add(unaskedInterval)
	return e.paid.Sub(now) - unaskedBurst
}

// restLocked starts the timer that the outcome asks for. Without one it forgets
// the parent.
func (s *Scheduler) restLocked(e *parentEntry, o Outcome, now time.Time) {
	e.ahead = 0
	after, why := o.Resync, TriggerResync
	if o.RetryAfter > 0 && (after <= 0 || o.RetryAfter < after) {
		after, why = o.RetryAfter, triggerRetry
	}
	if after <= 0 {
		delete(s.mu.parents, e.uid)
		return
	}
	s.startTimerLocked(e, now.Add(after), Fresh, why)
}

// Backoff returns how long a parent waits after the n-th failure in a row, n from 1.
// So long is also to be waited for what has failed as often within passes.
func (s *Scheduler) Backoff(n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backoff(errorBackoffBase, n)
}

// backoff returns the jittered wait after the n-th failure or throttled pass in a
// row, n from 1.
func (s *Scheduler) backoff(base time.Duration, n int) time.Duration {
	d := base
	for i := 1; i < n && d < s.maxBackoff; i++ {
		d *= 2
	}
	d += time.Duration(s.jitter() * float64(d) / 2)
	return min(d, s.maxBackoff)
}
