package plan

import (
	"strings"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
)

// A setback is what is remembered of a write that came to nothing: it was refused,
// or a newer state of the child was awaited. It counts for the desired state with
// this hash alone, the zero hash standing for a delete.
type setback struct {
	hash    jsonvalue.Digest
	failure Failure // Err is nil: the write wasn't refused, a newer state is awaited
	retry
}

// A Setback is a write of this pass that came to nothing.
type Setback struct {
	Action  *Action
	Failure Failure // Err is nil: a newer state of the child is awaited
	// Within bounds how long is waited until the write is tried again; 0: nothing does.
	Within time.Duration
}

// hashOfWant returns the hash for which a setback of an action counts.
func hashOfWant(a *Action) jsonvalue.Digest {
	if a.Want == nil {
		return jsonvalue.Digest{}
	}
	return a.Want.hash
}

// setback returns what is remembered of earlier writes like a, nil if nothing is.
func (p *ParentMemory) setback(a *Action) *setback {
	if s := p.setbacks[a.Ref]; s != nil && s.hash == hashOfWant(a) {
		return s
	}
	return nil
}

// Stir notes that something has happened to the parent, a child, or an object that
// the parent waits for, which may have ended the cause of a rejection. What was rejected is
// tried again at once, but no sooner than a second after its last try.
func (p *ParentMemory) Stir() {
	p.stirred = true
	for _, s := range p.setbacks {
		s.hasten()
	}
	for _, h := range p.held {
		h.hasten()
	}
	if p.status.refusal != nil {
		p.status.refusal.stirred = true
		p.status.refusal.hasten()
	}
}

// Calm notes that a pass has tried again which writes of children were refused.
func (p *ParentMemory) Calm() { p.stirred = false }

// SetBack remembers the writes of a pass that came to nothing, and forgets those
// of earlier passes. A write in kept wasn't tried in this pass: what is
// remembered of it stays. backoff returns how long to wait before the write is
// tried again that has come to nothing n times. held are the batches of which the rest
// was not tried: it counts instead of what was rejected of them.
func (p *ParentMemory) SetBack(kept []Refusal, now []Setback, held map[Batch]HeldNow, at time.Time, backoff func(n int) time.Duration) {
	p.hold(kept, held, at, backoff)
	if len(kept)+len(now) == 0 {
		p.setbacks = nil
		return
	}
	next := make(map[object.Ref]*setback, len(kept)+len(now))
	for _, r := range kept {
		if s := p.setbacks[r.Ref]; s != nil {
			next[r.Ref] = s
		}
	}
	backoff = together(backoff)
	for _, n := range now {
		s := &setback{hash: hashOfWant(n.Action), failure: n.Failure}
		if before := p.setbacks[n.Action.Ref]; before != nil && p.follows(before, s) {
			s.retry = before.retry
		}
		s.failed(at, backoff)
		if n.Within > 0 {
			s.at = sooner(s.at, at.Add(n.Within))
		}
		next[n.Action.Ref] = s
	}
	p.setbacks = next
}

// follows says whether a write that came to nothing counts as another try of the one before. What is desired
// otherwise does, too, if nothing has happened in between: a handler that makes a random value, as
// for a password, returns another one each time that it is called.
func (p *ParentMemory) follows(before, s *setback) bool {
	deletes := func(s *setback) bool { return s.hash == jsonvalue.Digest{} }
	refused := before.failure.Err != nil && s.failure.Err != nil
	return before.hash == s.hash || refused && !p.stirred && deletes(before) == deletes(s)
}

// Tries returns how many passes in a row have come to nothing with this write.
func (p *ParentMemory) Tries(a *Action) int {
	if s := p.setback(a); s != nil {
		return s.tries
	}
	return 0
}

// Unanswered returns the children whose write came to nothing in the last pass, as far as it has been answered. Some of them
// may have been created all the same.
func (p *ParentMemory) Unanswered() (children []object.Ref) {
	for _, e := range p.LastErrors() {
		children = append(children, object.Ref{Type: e.Type, Key: e.Key})
	}
	for ref, s := range p.setbacks {
		if s.failure.Err == nil { // a newer state is awaited
			children = append(children, ref)
		}
	}
	return children
}

// RetryIn returns how long after now the first rejected write is tried again; zero:
// nothing was rejected.
func (p *ParentMemory) RetryIn(now time.Time) (first time.Duration) {
	note := func(r *retry) {
		if in := r.in(now); first == 0 || in < first {
			first = in
		}
	}
	for _, s := range p.setbacks {
		if s.failure.Err != nil {
			note(&s.retry)
		}
	}
	for _, h := range p.held {
		note(&h.retry)
	}
	if p.status.refusal != nil {
		note(&p.status.refusal.retry)
	}
	return first
}

// Fail remembers which children a pass couldn't write, for the handler. It says
// whether the handler, which was last told of others, is to be told that there
// are none.
func (p *ParentMemory) Fail(failures []Failure) (over bool) {
	over = len(failures) == 0 && p.LastErrors() != nil
	if len(failures) == 0 {
		p.lastErrors.Store(nil)
		return over
	}
	list := make([]handler.ChildError, 0, len(failures))
	for _, f := range failures {
		list = append(list, f.ChildError())
	}
	p.lastErrors.Store(&list)
	return false
}

// LastErrors returns which children the last pass couldn't write, nil if there are
// none. The slice is read only. LastErrors may be called beside all other methods.
func (p *ParentMemory) LastErrors() []handler.ChildError {
	if list := p.lastErrors.Load(); list != nil {
		return *list
	}
	return nil
}

// A statusRefusal is the answer to a write of the parent's status that was refused.
type statusRefusal struct {
	desired jsonvalue.Digest
	err     error
	stirred bool // see ParentMemory.Stir
	retry
}

// RefuseStatus remembers that a desired status was refused with err.
func (p *ParentMemory) RefuseStatus(desired any, err error, now time.Time, backoff func(n int) time.Duration) {
	r := &statusRefusal{desired: jsonvalue.Sum(desired), err: err}
	if before := p.status.refusal; before != nil && (before.desired == r.desired || !before.stirred) { // see follows
		r.retry = before.retry
	}
	r.failed(now, backoff)
	p.status.refusal = r
}

// StatusRefused returns the error with which a desired status was refused, nil if it
// wasn't or is to be tried again.
func (p *ParentMemory) StatusRefused(desired any, now time.Time) error {
	r := p.status.refusal
	switch {
	case r == nil, r.desired != jsonvalue.Sum(desired), r.due(now):
		return nil
	}
	return r.err
}

// AwaitsStatus notes that a newer parent is awaited than the one with this
// resourceVersion, and says whether it was awaited before, in vain.
func (p *ParentMemory) AwaitsStatus(version string) (again bool) {
	again = p.status.awaits == version
	p.status.awaits = strings.Clone(version)
	return again
}

// lostStatuses is how many conflicts in a row mean that the parent changes during each call of the handler.
const lostStatuses = 3

// LosesStatus notes a conflict of the status, and reports whether there were several in a row.
func (p *ParentMemory) LosesStatus() bool {
	p.status.conflicts++
	return p.status.conflicts >= lostStatuses
}

// AwaitsEnd notes that the end of the parent is awaited, whose last state has this
// resourceVersion. It returns how long: least, and twice as long each further time, up
// to most.
func (p *ParentMemory) AwaitsEnd(version string, least, most time.Duration) time.Duration {
	if p.ends != version {
		p.ends, p.endAwaited = strings.Clone(version), 0
	}
	p.endAwaited = max(least, min(2*p.endAwaited, most))
	return p.endAwaited
}

// BesideStatus calls write, which writes another status than the desired one, and keeps what
// is remembered of that: it was refused, and is tried again as it was.
func (p *ParentMemory) BesideStatus(write func()) {
	refusal, conditions := p.status.refusal, p.conditions
	write()
	p.status.refusal, p.conditions = refusal, conditions
}

// ForgetRefusal forgets that a status was refused: none has to be written, or that of a
// newer parent is what counts.
func (p *ParentMemory) ForgetRefusal() { p.status.refusal = nil }

// A failureText is the text of a failure, and what of it is news: all but its counts.
type failureText struct{ text, news string }

// Failed remembers the text of a failure, and reports whether what of it is news differs from that of the last reconciliation.
// Empty texts stand for a success.
func (p *ParentMemory) Failed(text, news string) bool {
	last := p.lastError.Load()
	if text == "" {
		p.lastError.Store(nil)
		return last != nil
	}
	p.lastError.Store(&failureText{text, news})
	return last == nil || last.news != news
}

// LastError returns the text of the last failure, "" if the last pass succeeded. It may be
// called beside all other methods.
func (p *ParentMemory) LastError() string {
	if last := p.lastError.Load(); last != nil {
		return last.text
	}
	return ""
}
