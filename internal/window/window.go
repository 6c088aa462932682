package window

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
)

const (
	// maxStreams is how many streams, plans and recordings may be open at once.
	maxStreams = 32
	// maxExplaining is how many explanations may be under way at once.
	maxExplaining = 4
)

// Options say how a Window is served.
type Options struct {
	// Loopback says that the page is served on a loopback address, where requests of other hosts' names are
	// refused.
	Loopback bool
	// Protect returns a handler that lets those requests through to next alone that are allowed. It is asked for all
	// data. Nil: whoever can reach a loopback address may look, and on any other nobody may.
	Protect func(next http.Handler) http.Handler
	// Log gets what goes wrong; nil: slog.Default().
	Log *slog.Logger

	maxStreams int // 0: maxStreams
}

// A Window serves the page and its data. It is an http.Handler.
type Window struct {
	source  Source
	opts    Options
	data    http.Handler // what is below /window/, protected
	hubs    map[string]*hub
	explain chan struct{} // has a value for each explanation under way
	plan    chan struct{} // has a value for the plan under way

	mu struct {
		sync.Mutex
		closed bool
		open   map[*answer]struct{} // those that last
	}
	wg sync.WaitGroup // of those in open
}

// New returns a window on the operators of source. It starts no goroutine. The caller must call Close in
// the end.
func New(source Source, opts Options) *Window {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.maxStreams == 0 {
		opts.maxStreams = maxStreams
	}
	w := &Window{source: source, opts: opts, hubs: map[string]*hub{}, explain: make(chan struct{}, maxExplaining), plan: make(chan struct{}, 1)}
	w.mu.open = map[*answer]struct{}{}
	for _, name := range source.Operators() {
		w.hubs[name] = newHub(func() (look, bool) { return w.look(name) })
	}
	w.data = http.HandlerFunc(w.serveData)
	switch {
	case opts.Protect != nil:
		w.data = opts.Protect(w.data)
	case !opts.Loopback:
		w.data = http.HandlerFunc(unprotected)
	}
	return w
}

// Close ends all streams, and returns when they have ended. Requests that come later are answered 503. Close may
// be called more than once.
func (w *Window) Close() {
	w.mu.Lock()
	w.mu.closed = true
	for a := range w.mu.open {
		a.cut()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// ServeHTTP answers a request.
func (w *Window) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	setHeaders(rw.Header())
	page := isPage(req.URL.Path)
	if !w.accept(rw, req, page) {
		return
	}
	if page {
		servePage(rw, req)
		return
	}
	w.data.ServeHTTP(rw, req)
}

// begin counts an answer that lasts. It answers the request and returns false if there are too many, or the
// window is closed. The context ends with the request's, or when the window is closed. The caller must call end.
func (w *Window) begin(a *answer, req *http.Request) (context.Context, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.closed:
		unavailable(a.rw, "the operator stops")
		return nil, false
	case len(w.mu.open) >= w.opts.maxStreams:
		unavailable(a.rw, "too many streams are open; close another page")
		return nil, false
	}
	ctx, cancel := context.WithCancel(req.Context())
	a.mu.cancel = cancel // nobody else knows a yet
	w.mu.open[a] = struct{}{}
	w.wg.Add(1)
	return ctx, true
}

// end doesn't count an answer any more, to which nothing can be written from then on.
func (w *Window) end(a *answer) {
	a.finish()
	w.mu.Lock()
	delete(w.mu.open, a)
	w.mu.Unlock()
	w.wg.Done()
}

// unavailable answers a request that may be made again later.
func unavailable(rw http.ResponseWriter, why string) {
	rw.Header().Set("Retry-After", "5")
	http.Error(rw, why, http.StatusServiceUnavailable)
}

// unprotected answers requests for data that nobody protects.
func unprotected(rw http.ResponseWriter, _ *http.Request) {
	http.Error(rw, "the window shows no data: nothing protects it on this address", http.StatusForbidden)
}
