package gates

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// The types of the operator. Each has a watch.
const (
	parents = iota
	configMaps
	services
	podTemplates
	types
)

// plurals are how paths name the types.
func plurals() [types]string { return [types]string{"sites", "configmaps", "services", "podtemplates"} }

// slabSize bounds the watch events of a type that are held back, in bytes: ten times what a phase has.
const slabSize = 8 << 20

// A wire is the operator's way to the API server. It makes the order in which the operator
// learns things the same each time:
//
//   - Watch events wait until the operator is at rest. So the API response to a write arrives before the event of the
//     same write.
//   - Each Read of a watch returns one event.
//   - Requests about Events wait until the phase is over, since how many there are depends on the time that it takes.
//
// It counts the requests, and the events that are still to come. It allocates the same for each request, and nothing for an event.
type wire struct {
	next    http.RoundTripper
	watches http.RoundTripper // the way of watches
	names   [types]string

	mu       sync.Mutex
	changed  sync.Cond // what a Read of a watch waits for
	slabs    [][]byte  // that no stream uses
	streams  []*stream
	owed     [types]int // events of writes with a response, that haven't been received
	underWay int        // requests, other than watches and Events
	requests int        // so far, other than watches and Events
	reports  chan struct{}
}

func newWire() *wire {
	w := &wire{names: plurals(), reports: make(chan struct{})}
	w.changed.L = &w.mu
	for range types {
		w.slabs = append(w.slabs, make([]byte, slabSize))
	}
	return w
}

// wrap makes w the operator's way.
func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	w.next = next
	return w
}

// typeOf returns the type that a request is about, -1 if it is about none.
func (w *wire) typeOf(req *http.Request) int {
	for i, name := range w.names {
		if at := strings.Index(req.URL.Path, name); at > 0 && req.URL.Path[at-1] == '/' {
			return i
		}
	}
	return -1
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.RawQuery
	switch {
	case strings.Contains(req.URL.Path, "/events.k8s.io/"):
		return w.report(req)
	case strings.Contains(query, "watch=true"):
		return w.watch(req, strings.Contains(query, "sendInitialEvents=true"))
	}
	writes := req.Method != http.MethodGet && !strings.Contains(query, "dryRun=") && w.typeOf(req) >= 0
	w.begin()
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		w.end(-1)
		return nil, err
	}
	of := -1
	if writes && resp.StatusCode < http.StatusMultipleChoices {
		of = w.typeOf(req)
	}
	resp.Body = &response{resp.Body, w, of, false}
	return resp, nil
}

// report lets a request about an Event through when the phase is over.
func (w *wire) report(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	over := w.reports
	w.mu.Unlock()
	select {
	case <-over:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	return w.next.RoundTrip(req)
}

func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay++
	w.requests++
}

// end notes that a request is over, and that an event of the type (-1: none) is to come.
func (w *wire) end(of int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay--
	if of >= 0 {
		w.owed[of]++
	}
}

// A response tells the wire when it has been read.
type response struct {
	io.ReadCloser
	wire  *wire
	of    int
	ended bool
}

func (r *response) Close() error {
	if !r.ended {
		r.ended = true
		r.wire.end(r.of)
	}
	return r.ReadCloser.Close()
}

// watch carries a watch, whose events are held back. Those of the objects that exist at its begin aren't.
func (w *wire) watch(req *http.Request, initial bool) (*http.Response, error) {
	resp, err := w.watches.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.slabs) == 0 {
		return nil, errors.New("wire: more watches than types")
	}
	s := &stream{wire: w, of: w.typeOf(req), under: resp.Body, slab: w.slabs[0], initial: initial, over: make(chan struct{})}
	w.slabs, w.streams = w.slabs[1:], append(w.streams, s)
	go s.receive() // ends with the response's body, which the operator closes
	resp.Body = s
	return resp, nil
}

// A stream is the body of the response to a watch.
type stream struct {
	wire  *wire
	of    int
	under io.ReadCloser
	slab  []byte
	over  chan struct{} // closed when receive has returned

	// Guarded by wire.mu.
	received, released, read int // bytes of slab
	initial                  bool
	waits                    bool // a Read waits for more
	closed                   bool
	err                      error // what ended it
}

// receive reads the body until its end.
func (s *stream) receive() {
	defer close(s.over)
	w := s.wire
	for {
		n, err := s.under.Read(s.slab[s.received:])
		w.mu.Lock()
		from := s.received
		s.received += n
		s.note(from)
		if err == nil && s.received == len(s.slab) {
			err = errors.New("wire: too many events are held back")
		}
		s.err = err
		w.changed.Broadcast()
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// note counts the events that end behind an index of slab.
func (s *stream) note(from int) {
	for {
		end := bytes.IndexByte(s.slab[from:s.received], '\n')
		if end < 0 {
			return
		}
		from += end + 1
		line := s.slab[bytes.LastIndexByte(s.slab[:from-1], '\n')+1 : from]
		switch {
		case bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)):
			if s.initial && bytes.Contains(line, []byte(`"k8s.io/initial-events-end"`)) {
				s.initial, s.released = false, from
			}
		case s.initial:
			s.released = from
		default:
			s.wire.owed[s.of]--
		}
	}
}

// Read returns one event at most.
func (s *stream) Read(p []byte) (int, error) {
	w := s.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	s.waits = true
	for s.read == s.released && s.err == nil && !s.closed {
		w.changed.Wait()
	}
	s.waits = false
	switch {
	case s.closed:
		return 0, io.ErrClosedPipe
	case s.read == s.released:
		return 0, s.err
	}
	n := copy(p, s.slab[s.read:s.released])
	if end := bytes.IndexByte(p[:n], '\n'); end >= 0 {
		n = end + 1
	}
	s.read += n
	return n, nil
}

func (s *stream) Close() error {
	w := s.wire
	err := s.under.Close()
	<-s.over
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.closed {
		return err
	}
	s.closed = true
	w.slabs = append(w.slabs, s.slab)
	for i, each := range w.streams {
		if each == s {
			w.streams = append(w.streams[:i], w.streams[i+1:]...)
			break
		}
	}
	w.changed.Broadcast()
	return err
}

// atRest says whether no request is under way, all events have come, and those that were released have been
// read.
func (w *wire) atRest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.owed {
		if n != 0 {
			return false
		}
	}
	for _, s := range w.streams {
		if !s.waits || s.read != s.released || s.initial {
			return false
		}
	}
	return w.underWay == 0 && len(w.streams) == types
}

// release lets events through that were held back, so many of each watch at most (0: all), and says whether there were any.
func (w *wire) release(most int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for _, s := range w.streams {
		for n := 0; most == 0 || n < most; n++ {
			end := bytes.IndexByte(s.slab[s.released:s.received], '\n')
			if end < 0 {
				break // all whole events are released
			}
			s.released += end + 1
			found = true
		}
	}
	w.changed.Broadcast()
	return found
}

// owe notes writes of the test: so many events of each type are to come for each parent.
func (w *wire) owe(each [types]int, parents int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, n := range each {
		w.owed[i] += n * parents
	}
}

// endPhase lets the requests about Events through that have waited.
func (w *wire) endPhase() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.reports)
	w.reports = make(chan struct{})
}

func (w *wire) count() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(w.requests)
}

func (w *wire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d requests under way, %d watches, events to come of %v: %v", w.underWay, len(w.streams), w.names, w.owed)
}
