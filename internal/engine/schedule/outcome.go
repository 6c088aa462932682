package schedule

import "time"

// An Outcome is how a pass ended. The zero Outcome is a success that leaves no
// work behind.
//
// Where several fields are set: Forget comes before all others. After a failure
// or a throttled pass the next pass waits for its backoff, even if Again is set.
// Of Resync and RetryAfter the shorter one counts.
type Outcome struct {
	Err        bool          // the pass failed, and is retried with exponential backoff
	Permanent  bool          // the pass failed, and isn't retried: only a fresh Add, Again, Resync or RetryAfter lead to another one
	Again      bool          // the pass wrote something: the parent is due again at once, in the class of this pass
	Step       bool          // of Again: the pass has come a step further, so that the next one need not wait
	Resync     time.Duration // when the handler asked for another pass; dropped if a pass starts earlier
	Throttled  bool          // the parent is in a conflict loop: the next pass waits, unless the parent is edited meanwhile
	Paced      bool          // of Throttled: the wait doesn't grow
	Unfinished bool          // the pass has begun something that the next one must end: a throttle waits until then
	Forget     bool          // the parent is gone: its state is dropped
	RetryAfter time.Duration // when to try again, in place of the backoff and even if Permanent is set; dropped if a pass starts earlier
}

// Merge returns the outcome of a pass of which o and other are parts. It takes
// Again and Resync from both, and the other fields from o.
func (o Outcome) Merge(other Outcome) Outcome {
	o.Again = o.Again || other.Again
	o.Resync = Soonest(o.Resync, other.Resync)
	return o
}

// Soonest returns the shorter of two delays. Zero means no delay.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
