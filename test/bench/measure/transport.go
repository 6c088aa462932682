package measure

import (
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roperator/roperator/internal/apirequest"
)

// Watch is the verb of watches, in Stats.
const Watch = "WATCH"

// wire is what the transports of a process have counted.
type wire struct {
	arrived atomic.Int64 // when bytes of the parents' watch were read last, in ns since 1970

	mu struct {
		sync.Mutex
		requests  map[string]int
		conflicts int
		failures  int
		answered  int64 // the arrival that the newest single belongs to
		singles   []Single
	}
}

func newWire() *wire {
	w := &wire{}
	w.mu.requests = map[string]int{}
	return w
}

func (w *wire) stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{Requests: maps.Clone(w.mu.requests), Conflicts: w.mu.conflicts, Failures: w.mu.failures}
}

// takeSingles returns those since the last call.
func (w *wire) takeSingles() []Single {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.mu.singles
	w.mu.singles = nil
	return taken
}

// leaving notes a request before it is sent.
func (w *wire) leaving(verb, resource, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.requests[verb+" "+resource]++
	if resource != "configmaps" || verb != http.MethodPut && verb != http.MethodPatch {
		return
	}
	// The first write of a child after bytes of the parents' watch have come.
	if at := w.arrived.Load(); at != w.mu.answered {
		w.mu.answered = at
		w.mu.singles = append(w.mu.singles, Single{Object: name, Arrived: at, Left: time.Now().UnixNano()})
	}
}

func (w *wire) answeredWith(code int) {
	if code < http.StatusBadRequest {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if code == http.StatusConflict {
		w.mu.conflicts++
	} else {
		w.mu.failures++
	}
}

type transport struct {
	next http.RoundTripper
	wire *wire
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	info := apirequest.Parse(req)
	verb, resource := req.Method, target(info)
	if info.Verb == "watch" {
		verb = Watch
	}
	t.wire.leaving(verb, resource, info.Name)
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	t.wire.answeredWith(resp.StatusCode)
	if verb == Watch && resource == "apps" {
		resp.Body = &arrivals{ReadCloser: resp.Body, wire: t.wire}
	}
	return resp, nil
}

// target returns the resource that a request is about, with its subresource.
func target(info apirequest.Info) string {
	switch {
	case info.Resource.Empty():
		return "discovery"
	case info.Subresource != "":
		return info.Resource.Resource + "/" + info.Subresource
	}
	return info.Resource.Resource
}

// arrivals notes when bytes come.
type arrivals struct {
	io.ReadCloser
	wire *wire
}

func (a *arrivals) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.wire.arrived.Store(time.Now().UnixNano())
	}
	return n, err
}
