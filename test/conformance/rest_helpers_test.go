package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// fullSilence is for how long a settled operator is watched for requests, if the test does
	// nothing to it.
	fullSilence = 10 * time.Second
	// shortSilence is for how long it is watched at least before the test goes on to change
	// something.
	shortSilence = 2 * time.Second
)

// A silence is a time during which the operator of a test must make no request. It begins at a
// mark in the audit log. It ends before the next action of the test on the operator. Without such
// an action it ends when it has lasted for fullSilence, for which the operator runs on after the test.
// Then the log since the mark is judged.
type silence struct {
	t        *lasting
	rests    *register
	log      *auditLog // nil: there is no silence
	operator string

	mu    sync.Mutex
	open  bool
	from  mark
	began time.Time
	least time.Duration // before an action; 0 if an action may end the silence at once
	kept  []func()      // judge what the log doesn't tell
	over  chan struct{} // closed when the operator has ended, after the test; nil during the test
}

// newSilence returns the silence of an operator, which hasn't begun.
func newSilence(t testing.TB, r *register, operator string) *silence {
	return &silence{t: &lasting{TB: t}, rests: r, log: audit, operator: operator}
}

// begin begins the silence, or adds to one that has begun. When it ends, kept is called.
func (s *silence) begin(least time.Duration, kept func()) {
	s.t.Helper()
	if s.log == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		s.open, s.from, s.began, s.least, s.kept = true, s.log.mark(s.t), time.Now(), 0, nil
	}
	s.least = max(s.least, least)
	if kept != nil {
		s.kept = append(s.kept, kept)
	}
}

// acts ends the silence, as the test is about to do something to the operator. If the test has
// ended, only its cleanups do, and the silence lasts for
// fullSilence.
func (s *silence) acts() {
	if s == nil {
		return
	}
	s.t.Helper()
	s.mu.Lock()
	over, least := s.over, s.least
	s.mu.Unlock()
	if over != nil {
		<-over
		return
	}
	if least > 0 && s.t.Context().Err() != nil {
		least = fullSilence
	}
	s.end(least)
}

// end ends the silence as soon as it has lasted for that long, and judges it.
func (s *silence) end(least time.Duration) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	s.open = false
	s.rests.pause(s.began.Add(least), s.over != nil)
	if requests := s.log.since(s.t, s.from, s.operator); len(requests) > 0 {
		s.t.Errorf("%s had settled, and made requests within %v: %v", s.operator, time.Since(s.began), requests)
	}
	for _, kept := range s.kept {
		kept()
	}
}

// leave ends the operator, as the test ends. If there is a silence to be watched, the operator
// ends later, unless it can't work without the test.
func (s *silence) leave(lasts bool) {
	s.mu.Lock()
	open, least := s.open, s.least
	if lasts = lasts && open && !s.t.Failed(); lasts {
		s.over = make(chan struct{})
		s.t.outlive()
	}
	s.mu.Unlock()
	if !lasts {
		defer s.rests.remove(s)
		defer s.t.cleanUp()
		if open && !s.t.Failed() {
			if least > 0 {
				least = fullSilence
			}
			s.end(least)
		}
		return
	}
	s.rests.running.Go(func() {
		defer close(s.over)
		defer s.rests.remove(s)
		defer s.t.cleanUp()
		s.end(fullSilence)
	})
}

// A lasting is a test as the Kit of an operator sees it that may run on after the test has ended.
type lasting struct {
	testing.TB

	mu       sync.Mutex
	outlives bool
	cleanups []func()
	failed   bool
	said     bytes.Buffer // since the test has ended
}

// outlive says that the test ends and the operator runs on.
func (l *lasting) outlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outlives = true
}

func (l *lasting) cleanUp() {
	for {
		l.mu.Lock()
		n := len(l.cleanups)
		if n == 0 {
			l.mu.Unlock()
			return
		}
		next := l.cleanups[n-1]
		l.cleanups = l.cleanups[:n-1]
		l.mu.Unlock()
		next()
	}
}

// Write takes what the operator logs.
func (l *lasting) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outlives {
		return l.said.Write(p)
	}
	return l.TB.Output().Write(p)
}

// late notes a failure after the end of the test, and returns false before.
func (l *lasting) late(failure string, args ...any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.outlives {
		return false
	}
	l.failed = true
	fmt.Fprintf(&l.said, failure+"\n", args...)
	return true
}

// What a Kit calls of a test.

func (l *lasting) Output() io.Writer { return l }

func (l *lasting) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *lasting) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed || l.TB.Failed()
}

func (l *lasting) Logf(format string, args ...any) { fmt.Fprintf(l.Output(), format+"\n", args...) }

func (l *lasting) Errorf(format string, args ...any) {
	l.Helper()
	if !l.late(format, args...) {
		l.TB.Errorf(format, args...)
	}
}

func (l *lasting) Fatalf(format string, args ...any) {
	l.Helper()
	l.Errorf(format, args...)
	l.FailNow()
}

func (l *lasting) FailNow() {
	if l.late("it can't go on") {
		runtime.Goexit()
	}
	l.TB.FailNow()
}

// failure returns what failed after the end of the test, "" if nothing did.
func (l *lasting) failure() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failed {
		return ""
	}
	return l.Name() + ", after its end:\n" + l.said.String()
}

// A register has the silences of the tests that run, and what came of those that outlived theirs.
type register struct {
	running sync.WaitGroup // until then operators outlive their tests

	mu       sync.Mutex
	all      map[*silence]string // with the namespace of the operator
	failures []string
	judged   int
	waited   time.Duration // by tests, before they went on
}

func (r *register) add(s *silence, namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[s] = namespace
}

func (r *register) remove(s *silence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, s)
	if failure := s.t.failure(); failure != "" {
		r.failures = append(r.failures, failure)
	}
}

// pause waits until then. A test waits, or only an operator that outlives it.
func (r *register) pause(until time.Time, outlives bool) {
	left := max(0, time.Until(until))
	r.mu.Lock()
	r.judged++
	if !outlives {
		r.waited += left
	}
	r.mu.Unlock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	<-timer.C
}

// finish waits until all operators have ended that outlive their tests, and returns what failed.
func (r *register) finish() error {
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, failure := range r.failures {
		errs = append(errs, errors.New(failure))
	}
	return errors.Join(errs...)
}

// summary says what the silences cost.
func (r *register) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d silences judged, for which tests waited %v in all", r.judged, r.waited.Round(time.Second))
}

// touched returns the silences that a write of a test may end: of operators in that namespace,
// and those of the test itself if the namespace is no operator's.
func (r *register) touched(test, path string) (out []*silence) {
	namespace := ""
	if parts := strings.Split(path, "/"); slices.Contains(parts, "namespaces") {
		if i := slices.Index(parts, "namespaces") + 1; i < len(parts) {
			namespace = parts[i]
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for s, of := range r.all {
		if namespace != "" && of == namespace {
			out = append(out, s)
		}
	}
	if len(out) > 0 {
		return out
	}
	for s := range r.all {
		if name := s.t.Name(); name == test || strings.HasPrefix(name, test+"/") {
			out = append(out, s)
		}
	}
	return out
}

// An acting is the transport of a client by which a test acts on operators.
type acting struct {
	http.RoundTripper
	test string
}

// RoundTrip ends the silences that a write may end, and sends it.
func (a acting) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.URL.Query().Get("dryRun") == "" {
		for _, s := range rests.touched(a.test, req.URL.Path) {
			s.acts()
		}
	}
	return a.RoundTripper.RoundTrip(req)
}
