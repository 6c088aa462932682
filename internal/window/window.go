package window

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// maxStreams is how many streams, plans and recordings may be open at once.
const maxStreams = 32

// Options say how a Window is served.
type Options struct {
	// Loopback says that the page is served on a loopback address, where requests of other hosts' names are
	// refused.
	Loopback bool
	// Protect returns a handler that lets those requests through to next alone that are allowed. It is asked for all
	// data. Nil: everybody who can reach the address may look.
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
	explain chan struct{} // a place for each explanation under way
	plan    chan struct{} // a place for the plan under way

	closed chan struct{} // closed by Close
	mu     struct {
		sync.Mutex
		closed  bool
		streams int
	}
	wg sync.WaitGroup // of the streams
}

// maxExplaining is how many explanations may be under way at once.
const maxExplaining = 4

// New returns a window on the operators of source. It starts no goroutine. The caller must call Close in
// the end.
func New(source Source, opts Options) *Window {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.maxStreams == 0 {
		opts.maxStreams = maxStreams
	}
	w := &Window{
		source: source, opts: opts, hubs: map[string]*hub{}, explain: make(chan struct{}, maxExplaining), plan: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	for _, name := range source.Operators() {
		w.hubs[name] = newHub(func() look { return w.look(name) })
	}
	data := http.NewServeMux()
	data.HandleFunc("GET /window/overview", w.serveOverview)
	data.HandleFunc("GET /window/parent", w.serveParent)
	data.HandleFunc("GET /window/plan", w.servePlan)
	data.HandleFunc("GET /window/recording", w.serveRecording)
	w.data = data
	if opts.Protect != nil {
		w.data = opts.Protect(data)
	}
	return w
}

// Close ends all streams, and returns when they have ended. Requests that come later are answered 503.
func (w *Window) Close() {
	w.mu.Lock()
	if !w.mu.closed {
		w.mu.closed = true
		close(w.closed)
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
	rw.Header().Set("Cache-Control", "no-store")
	w.data.ServeHTTP(rw, req)
}

// begin counts a stream. It answers the request and returns false if there are too many, or the window is
// closed. The context ends with the request's, or when the window is closed. The caller must call end.
func (w *Window) begin(rw http.ResponseWriter, req *http.Request) (ctx context.Context, end func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.closed:
		unavailable(rw, "the operator stops")
		return nil, nil, false
	case w.mu.streams >= w.opts.maxStreams:
		unavailable(rw, "too many streams are open; close another page")
		return nil, nil, false
	}
	w.mu.streams++
	w.wg.Add(1)
	ctx, cancel := context.WithCancel(req.Context())
	ended := make(chan struct{})
	go func() { // ends with the stream
		select {
		case <-w.closed:
			cancel()
		case <-ended:
		}
	}()
	return ctx, func() {
		close(ended)
		cancel()
		w.mu.Lock()
		w.mu.streams--
		w.mu.Unlock()
		w.wg.Done()
	}, true
}

// unavailable answers a request that may be made again later.
func unavailable(rw http.ResponseWriter, why string) {
	rw.Header().Set("Retry-After", "5")
	http.Error(rw, why, http.StatusServiceUnavailable)
}

// pause returns after d, false if ctx has ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
