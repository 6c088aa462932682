package apply

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
)

// alike is how many equal rejections of a batch hold the rest of it.
const alike = 3

// A slowStart sends the writes of a batch concurrently as long as the API server accepts them. After a rejection, a single
// write goes on as the probe. If it is accepted, the rest follows concurrently. After three rejections in a row with one reason,
// as when a quota is exhausted, the rest is held. It is safe for concurrent use.
type slowStart struct {
	mu struct {
		sync.Mutex
		reason  string // of the last rejections
		count   int    // how many there were in a row
		err     error  // the last one
		more    int    // how many more probes may be rejected before the rest is held
		held    bool   // the last probe was rejected, and so were enough others
		sum     plan.HeldNow
		probe   *plan.Action
		probing chan struct{} // closed when the probe is over; nil: there is none
	}
}

// slowStartOf returns the slowStart of an action, nil if nothing of its batch was rejected yet.
func (x *Executor) slowStartOf(a *plan.Action) *slowStart {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := plan.BatchOf(a)
	s := x.mu.batches[b]
	if before, ok := x.Probes[b]; ok && s == nil {
		s = x.newSlowStartLocked(b)
		s.mu.reason, s.mu.count, s.mu.err, s.mu.more = before.Reason, alike, before.Failure.Err, before.Probes-1
	}
	return s
}

func (x *Executor) newSlowStartLocked(b plan.Batch) *slowStart {
	if x.mu.batches == nil {
		x.mu.batches = map[plan.Batch]*slowStart{}
	}
	s := &slowStart{}
	x.mu.batches[b] = s
	return s
}

// note notes what has become of an action that admit has let pass.
func (x *Executor) note(a *plan.Action, r *Result) {
	s := x.slowStartOf(a)
	if s == nil {
		if _, err := rejection(a, r); err == nil {
			return
		}
		x.mu.Lock()
		if s = x.mu.batches[plan.BatchOf(a)]; s == nil {
			s = x.newSlowStartLocked(plan.BatchOf(a))
		}
		x.mu.Unlock()
	}
	s.note(a, r)
}

// admit waits until a write may be sent, and returns why it may not; nil: it may. Then the caller must call note.
func (s *slowStart) admit(ctx context.Context, a *plan.Action) error {
	for s != nil {
		s.mu.Lock()
		probing := s.mu.probing
		switch {
		case s.mu.count == 0:
			s.mu.Unlock()
			return nil
		case s.mu.held:
			defer s.mu.Unlock()
			return s.heldError(a)
		case probing == nil:
			s.mu.probe, s.mu.probing = a, make(chan struct{})
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-probing:
		case <-ctx.Done():
			return describe(a, ctx.Err())
		}
	}
	return nil
}

// notAdmitted returns the result of a write that admit has not let pass, because of err. A correction of drift is tried again later.
func (x *Executor) notAdmitted(ctx context.Context, a *plan.Action, err error) Result {
	if _, held := errors.AsType[*heldError](err); !held || !a.Corrects() {
		return Result{Action: a, Err: err, Held: true}
	}
	kept, rejected := *a, a.Reject(x.Settings, nil, err)
	rejected.Untried = true
	kept.Rejection = &rejected
	return x.conclude(ctx, &kept, Result{Live: a.Live, Accepted: true})
}

// heldError returns the error of a write that is held.
func (s *slowStart) heldError(a *plan.Action) error {
	return &apierror.RefusedError{Err: &heldError{text: fmt.Sprintf("%s: %s: not tried, since others of its type are rejected", a.Ref, a.Verb), err: s.mu.err}}
}

// A heldError is the error of a write that was not sent.
type heldError struct {
	text string
	err  error // that of the probe
}

func (e *heldError) Error() string { return e.text + ": " + e.err.Error() }
func (e *heldError) Unwrap() error { return e.err }

// note notes what has become of a write.
func (s *slowStart) note(a *plan.Action, r *Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason, err := rejection(a, r)
	rejected := err != nil
	if rejected {
		s.mu.sum.Rejected++
	}
	switch {
	case rejected && reason == s.mu.reason:
		s.mu.count, s.mu.err = s.mu.count+1, err
	case rejected:
		s.mu.reason, s.mu.count, s.mu.err = reason, 1, err
	case r.Err == nil && (r.Wrote || r.Accepted):
		s.mu.sum.Accepted = true
		if s.mu.probe == a { // others were under way before
			s.mu.count = 0
		}
	}
	if s.mu.probe == a {
		if rejected && s.mu.count >= alike {
			s.mu.more--
			s.mu.held = s.mu.more < 0
		}
		close(s.mu.probing)
		s.mu.probe, s.mu.probing = nil, nil
	}
}

// rejection returns the error of a rejection that other writes of the batch may meet, too, and its reason: what the API server says,
// but for the name of the object. That a name is taken is nothing that they have in common. nil: it was not rejected.
func rejection(a *plan.Action, r *Result) (reason string, err error) {
	err = r.Err
	if err == nil && r.Action != nil && r.Action.Rejection != nil && !r.Wrote { // no Action: it panics
		err = r.Action.Rejection.Err
	} else if _, refused := errors.AsType[*apierror.RefusedError](err); !refused {
		return "", nil
	}
	if _, taken := errors.AsType[*NameTakenError](err); taken || r.Undeleted {
		return "", nil
	}
	text := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		text = status.Status().Message
	}
	return string(apierrors.ReasonForError(err)) + " " + withoutName(text, a.Ref.Key.Name), err
}

// withoutName cuts the name of an object out of a message, where it stands as a word of its own: 1 is no part of 12.
func withoutName(text, name string) string {
	return regexp.MustCompile(`(^|[^\w-])`+regexp.QuoteMeta(name)+`($|[^\w-])`).ReplaceAllString(text, "$1$2")
}

// again lets the next write of the batches of these actions be another probe.
func (x *Executor) again(actions []plan.Action) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range actions {
		if s := x.mu.batches[plan.BatchOf(&actions[i])]; s != nil {
			s.mu.Lock()
			s.mu.held = false
			s.mu.Unlock()
		}
	}
}

// held returns the batches that are held.
func (x *Executor) held() map[plan.Batch]plan.HeldNow {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out map[plan.Batch]plan.HeldNow
	for b, s := range x.mu.batches {
		s.mu.Lock()
		if s.mu.held && !b.Corrects {
			if out == nil {
				out = map[plan.Batch]plan.HeldNow{}
			}
			now := s.mu.sum
			now.Reason = s.mu.reason
			now.Failure = plan.Failure{Reason: string(apierrors.ReasonForError(s.mu.err)), Err: s.mu.err}
			out[b] = now
		}
		s.mu.Unlock()
	}
	return out
}
