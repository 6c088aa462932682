package plan

import (
	"time"

	"github.com/roperator/roperator/resource"
)

const (
	// hastened is how soon after its last try a rejected write is tried again at the earliest because of an external
	// change.
	hastened = time.Second
	// overdueRetry is when a rejected write is tried again that was due in the last plan, and for which something stood
	// in the way.
	overdueRetry = 100 * time.Millisecond
	// After a long pause, more of a batch than one write is tried: an operator that seldom tries may try more.
	longPause        = 10 * time.Second
	probesAfterPause = 16
)

// A retry is how often a write was rejected in a row, and when it is tried again. One policy holds for children, whole batches
// of them, and the status: exponential backoff, which an external change shortens to a second after the last try.
type retry struct {
	tries int
	tried time.Time // the last time
	at    time.Time // when it is tried again
}

// failed notes that another try was rejected. backoff returns how long to wait after n tries.
func (r *retry) failed(now time.Time, backoff func(n int) time.Duration) {
	r.tries++
	r.tried, r.at = now, now.Add(backoff(r.tries))
}

// hasten notes an external change.
func (r *retry) hasten() { r.at = sooner(r.at, r.tried.Add(hastened)) }

// due reports whether the write is to be tried again.
func (r *retry) due(now time.Time) bool { return !now.Before(r.at) }

// in returns how long after now the write is tried again.
func (r *retry) in(now time.Time) time.Duration {
	if in := r.at.Sub(now); in > 0 {
		return in
	}
	return overdueRetry
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// together returns a backoff that gives the same delay for as many tries: such writes are tried again together.
func together(backoff func(n int) time.Duration) func(n int) time.Duration {
	delays := map[int]time.Duration{}
	return func(n int) time.Duration {
		if _, known := delays[n]; !known {
			delays[n] = backoff(n)
		}
		return delays[n]
	}
}

// A Batch names the writes of a parent's children of one type, or the deletes of it. They are often rejected for one reason.
// Corrections of drift are a batch of their own, since no other write waits for them (S189).
type Batch struct {
	Type     resource.Type
	Deletes  bool
	Corrects bool
}

// BatchOf returns the batch of an action.
func BatchOf(a *Action) Batch { return Batch{a.Ref.Type, a.Verb == VerbDelete, a.Corrects()} }

// A held is a batch of which three writes and a probe were rejected for one reason. Until a probe is accepted, each try
// is one write.
type held struct {
	HeldBatch
	retry
}

// A HeldBatch is a batch that was held before.
type HeldBatch struct {
	Reason  string  // why each probe was rejected
	Failure Failure // that of the first probe which was rejected for this reason, without a child
	Next    int     // the number of the write in the batch that is the next probe, modulo their number
	Probes  int     // how many may be rejected one after the other before the rest is held again
}

// A HeldNow is a batch that is held at the end of a reconciliation.
type HeldNow struct {
	Reason   string  // why the last probe was rejected
	Failure  Failure // that of the probe, without a child
	Rejected int     // how many of its writes were rejected
	Accepted bool    // one of its writes was accepted
}

// HeldBatches returns the batches that begin with a probe; nil: there are none.
func (p *ParentMemory) HeldBatches(now time.Time) map[Batch]HeldBatch {
	if len(p.held) == 0 {
		return nil
	}
	out := make(map[Batch]HeldBatch, len(p.held))
	for b, h := range p.held {
		batch := h.HeldBatch
		if batch.Probes = 1; now.Sub(h.tried) >= longPause {
			batch.Probes = probesAfterPause
		}
		out[b] = batch
	}
	return out
}

// hold remembers the batches that are held. One that was not due in the plan stays as it is.
func (p *ParentMemory) hold(kept []Refusal, now map[Batch]HeldNow, at time.Time, backoff func(n int) time.Duration) {
	if len(p.held)+len(now) == 0 {
		return
	}
	next := map[Batch]*held{}
	for _, r := range kept {
		if r.Held {
			b := BatchOf(r.Action)
			next[b] = p.held[b]
		}
	}
	for b, n := range now {
		h := &held{HeldBatch: HeldBatch{Reason: n.Reason, Failure: n.Failure, Next: n.Rejected}}
		if before := p.held[b]; before != nil {
			h.retry = before.retry
			h.Next += before.Next
			if before.Reason == h.Reason {
				h.Failure = before.Failure // so that it is reported once
			}
		}
		if n.Accepted {
			h.retry = retry{}
		}
		h.failed(at, func(n int) time.Duration { return max(hastened, backoff(n)) })
		next[b] = h
	}
	p.held = next
}
