package window

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A visitor asks for one resource, and is its http.ResponseWriter. It needs no socket, so that it can be in
// a bubble.
type visitor struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{} // closed when the request was answered
	header http.Header

	mu struct {
		sync.Mutex
		status   int
		body     bytes.Buffer
		flushed  int           // how much of body was
		stuck    bool          // the visitor takes nothing
		takes    int           // but so many writes
		deadline time.Time     // of writes
		changed  chan struct{} // closed when stuck or deadline changes
	}
}

// visit asks w for a path.
func visit(t *testing.T, w http.Handler, path string) *visitor {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	v := &visitor{t: t, cancel: cancel, ended: make(chan struct{}), header: http.Header{}}
	v.mu.changed = make(chan struct{})
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.Host = "localhost:8090"
	go func() { // ends with the answer
		defer close(v.ended)
		w.ServeHTTP(v, req)
	}()
	t.Cleanup(v.leave)
	return v
}

// leave ends the request, and waits for the end of its answer.
func (v *visitor) leave() {
	v.cancel()
	<-v.ended
}

func (v *visitor) Header() http.Header { return v.header }

func (v *visitor) WriteHeader(status int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.status == 0 {
		v.mu.status = status
	}
}

// Write waits while the visitor takes nothing, until the deadline.
func (v *visitor) Write(p []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	for {
		v.mu.Lock()
		stuck, wait, changed := v.mu.stuck, time.Until(v.mu.deadline), v.mu.changed
		if !stuck || v.mu.takes > 0 {
			defer v.mu.Unlock()
			v.mu.takes = max(0, v.mu.takes-1)
			return v.mu.body.Write(p)
		}
		v.mu.Unlock()
		if wait <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case <-time.After(wait):
		case <-changed:
		}
	}
}

func (v *visitor) FlushError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.flushed = v.mu.body.Len()
	return nil
}

func (v *visitor) SetWriteDeadline(deadline time.Time) error {
	v.change(func() { v.mu.deadline = deadline })
	return nil
}

// stick has the visitor take nothing, or again what comes.
func (v *visitor) stick(stuck bool) { v.change(func() { v.mu.stuck = stuck }) }

// take has a visitor that is stuck take one write.
func (v *visitor) take() { v.change(func() { v.mu.takes++ }) }

func (v *visitor) change(do func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	do()
	close(v.mu.changed)
	v.mu.changed = make(chan struct{})
}

// hasEnded says whether the request was answered.
func (v *visitor) hasEnded() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// status returns that of the answer, 0 if there is none yet.
func (v *visitor) status() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.status
}

// text returns what has come since it was called last.
func (v *visitor) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.header.Get("Content-Type") == eventStream {
		require.Equal(v.t, v.mu.flushed, v.mu.body.Len(), "all is flushed")
	}
	v.mu.flushed = 0
	text := v.mu.body.String()
	v.mu.body.Reset()
	return text
}

// events returns the events that have come since it was called last, each as its name, a space and its data;
// comments are ":".
func (v *visitor) events() []string {
	v.t.Helper()
	return parse(v.t, v.text())
}

// named returns the data of those events that have a name.
func (v *visitor) named(name string) []string {
	v.t.Helper()
	return only(v.events(), name)
}

func parse(t *testing.T, text string) []string {
	t.Helper()
	out := []string{}
	if text == "" {
		return out
	}
	require.True(t, strings.HasSuffix(text, "\n\n"), "the last event has its end: %q", text)
	for each := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if strings.HasPrefix(each, ":") {
			out = append(out, ":")
			continue
		}
		lines := strings.Split(each, "\n")
		require.Len(t, lines, 2, "%q", each)
		name, ok := strings.CutPrefix(lines[0], "event: ")
		require.True(t, ok, "%q", each)
		data, ok := strings.CutPrefix(lines[1], "data: ")
		require.True(t, ok, "%q", each)
		require.True(t, json.Valid([]byte(data)), "%q", each)
		require.NotContains(t, each, "\r")
		out = append(out, name+" "+data)
	}
	return out
}

// only returns the data of those events that have a name.
func only(events []string, name string) []string {
	out := []string{}
	for _, each := range events {
		if data, ok := strings.CutPrefix(each, name+" "); ok {
			out = append(out, data)
		}
	}
	return out
}

// names returns the names of events.
func names(events []string) []string {
	out := []string{}
	for _, each := range events {
		name, _, _ := strings.Cut(each, " ")
		out = append(out, name)
	}
	return out
}

// pass lets the bubble's clock go on.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// opened returns a window at a loopback address, and what it logs.
func opened(t *testing.T, source Source) (*Window, *logged) {
	t.Helper()
	log := &logged{}
	w := New(source, Options{Loopback: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(w.Close)
	return w, log
}

// A logged is a log.
type logged struct {
	mu struct {
		sync.Mutex
		text bytes.Buffer
	}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.String()
}
