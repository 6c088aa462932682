package lead

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A term is a time for which this process holds the fleet's Lease, together with the other
// members. It may not have begun yet, and it ends for good: all work of a term must have
// ended before there is another one. Its methods may be called concurrently.
//
// The fleet's Lease is held for RenewDeadline from the moment at which the last successful
// round of renewals began. In a round, this process renews its own Lease and the fleet's.
// So as long as it holds the fleet's Lease, no other member can have seen its own Lease expire.
type term struct {
	lease    string                  // for errors
	deadline time.Duration           // RenewDeadline
	begun    chan struct{}           // closed when the term begins
	cut      context.CancelCauseFunc // ends the context of the term

	mu struct {
		sync.Mutex
		renewed time.Time // when the last successful round began; zero: the term hasn't begun
		lost    error     // says why the term has ended; nil: it hasn't
	}
}

// newTerm returns a term that hasn't begun, and a context that ends with it.
func (m *Members) newTerm(ctx context.Context) (context.Context, *term) {
	ctx, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	return ctx, &term{lease: m.Key().String(), deadline: m.config.RenewDeadline, begun: make(chan struct{}), cut: cut}
}

// held says whether the fleet's Lease is held in this term.
func (t *term) held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leftLocked() > 0
}

// left returns for how long the fleet's Lease is held without another renewal.
func (t *term) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leftLocked()
}

func (t *term) leftLocked() time.Duration {
	if t.mu.lost != nil || t.mu.renewed.IsZero() {
		return 0
	}
	return t.deadline - elapsed(t.mu.renewed)
}

// settle ends the term if it has begun and the fleet's Lease isn't held any more. It says
// whether the term has ended. A renewal that comes too late mustn't bring the term back: in
// between, others may have counted this process as gone.
func (t *term) settle() (over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked()
	return t.mu.lost != nil
}

func (t *term) settleLocked() {
	if !t.mu.renewed.IsZero() && t.leftLocked() <= 0 {
		t.loseLocked(fmt.Errorf("Lease %s: lost: it wasn't renewed for %v; others may work now", t.lease, t.deadline))
	}
}

// renew notes a successful round of renewals that began at begin.
func (t *term) renew(begin time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settleLocked(); t.mu.lost != nil || elapsed(begin) >= t.deadline {
		return
	}
	if t.mu.renewed.IsZero() {
		close(t.begun)
	}
	t.mu.renewed = begin
}

// lose ends the term.
func (t *term) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loseLocked(err)
}

func (t *term) loseLocked(err error) {
	if t.mu.lost == nil {
		t.mu.lost = err
		t.cut(err)
	}
}

// hasBegun says whether the term has begun.
func (t *term) hasBegun() bool { return t.lastRenewed() != time.Time{} }

// lastRenewed returns when the last successful round began, the zero time if the term hasn't
// begun. A term that has ended keeps its last time.
func (t *term) lastRenewed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.renewed
}

// watch ends the term once the fleet's Lease is held no more. It returns then, or when ctx ends.
func (t *term) watch(ctx context.Context) {
	for left := t.left(); left > 0; left = t.left() {
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
	t.settle()
}
