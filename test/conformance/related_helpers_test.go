package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// numbered returns names: the prefix, and the numbers from 0 on.
func numbered(prefix string, count int) []any {
	names := make([]any, count)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return names
}

// A secretsWay is the way of an operator's requests for Secrets to the API server. Other
// requests don't take it.
type secretsWay struct {
	late    time.Duration // how long a request takes, and then each event of a watch
	asks    latch         // before the requests
	refused atomic.Bool   // connections are: nobody listens at the other end
	cuts    atomic.Int64  // how many of the next lists are cut in the middle
	gone    atomic.Int64  // how often the API server has said 410

	mu   sync.Mutex
	open map[*secretsAnswer]struct{} // to watches
}

func newSecretsWay() *secretsWay { return &secretsWay{open: map[*secretsAnswer]struct{}{}} }

// wrap has the requests of a client for Secrets take the way.
func (w *secretsWay) wrap(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(req.URL.Path, "/secrets") && !strings.Contains(req.URL.Path, "/secrets/") {
				return next.RoundTrip(req)
			}
			return w.take(next, req)
		})
	})
}

func (w *secretsWay) take(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	w.asks.pass(req.Context())
	if err := delay(req.Context(), w.late); err != nil {
		return nil, err
	}
	if w.refused.Load() {
		return nil, syscall.ECONNREFUSED
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusGone {
		w.gone.Add(1)
	}
	asked := req.URL.Query()
	if lists := asked.Get("watch") == "" && asked.Get("limit") != "1" || asked.Has("sendInitialEvents"); lists && w.cuts.Add(-1) >= 0 {
		resp.Body = &cutBody{resp.Body, 100}
	}
	if asked.Get("watch") != "" {
		resp.Body = w.answer(resp.Body)
	}
	return resp, nil
}

// A cutBody ends with an error after some bytes.
type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	if b.left -= n; b.left == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// delay waits, unless ctx ends.
func delay(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cut ends all watches, as if a connection broke.
func (w *secretsWay) cut() { w.endAll(io.ErrUnexpectedEOF) }

// end ends all watches, as the API server does after some minutes.
func (w *secretsWay) end() { w.endAll(io.EOF) }

func (w *secretsWay) endAll(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.open {
		a.ends <- why
		delete(w.open, a)
	}
}

// A secretsAnswer is what a watch delivers.
type secretsAnswer struct {
	from  io.ReadCloser
	way   *secretsWay
	parts chan part
	ends  chan error    // has room for one: why the answer ends before its time
	done  chan struct{} // closed with the answer
	close func() error
	rest  part // what hasn't been handed on of the last part
}

// A part is what one Read has returned.
type part struct {
	bytes []byte
	err   error
	due   time.Time // when it arrives
}

func (w *secretsWay) answer(from io.ReadCloser) *secretsAnswer {
	a := &secretsAnswer{
		from: from, way: w, parts: make(chan part, 1<<10), ends: make(chan error, 1), done: make(chan struct{}),
	}
	a.close = sync.OnceValue(func() error {
		close(a.done)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, a)
		return from.Close()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[a] = struct{}{}
	go a.receive() // until the answer ends or is closed
	return a
}

// receive reads what comes from the API server.
func (a *secretsAnswer) receive() {
	for err := error(nil); err == nil; {
		buf := make([]byte, 8<<10)
		var n int
		n, err = a.from.Read(buf)
		if bytes.Contains(buf[:n], []byte(`"code":410`)) {
			a.way.gone.Add(1)
		}
		select {
		case a.parts <- part{buf[:n], err, time.Now().Add(a.way.late)}:
		case <-a.done:
			return
		}
	}
}

func (a *secretsAnswer) Close() error { return a.close() }

func (a *secretsAnswer) Read(p []byte) (int, error) {
	if len(a.rest.bytes) == 0 && a.rest.err == nil {
		if err := a.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.rest.bytes)
	if a.rest.bytes = a.rest.bytes[n:]; len(a.rest.bytes) > 0 {
		return n, nil
	}
	return n, a.rest.err
}

// next waits until the next part arrives, or the answer ends.
func (a *secretsAnswer) next() error {
	select {
	case a.rest = <-a.parts:
	case err := <-a.ends:
		return err
	case <-a.done:
		return http.ErrBodyReadAfterClose
	}
	timer := time.NewTimer(time.Until(a.rest.due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-a.ends:
		return err
	case <-a.done:
		return http.ErrBodyReadAfterClose
	}
}
