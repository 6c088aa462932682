package sim

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/testing/faults"
)

// A response to a write arrives responseTime after the write. Its event arrives orderGap earlier or later.
const (
	responseTime = 3 * time.Millisecond
	orderGap     = time.Microsecond
)

// An orderedLink decides which of the response and the event of a write arrives first.
type orderedLink struct {
	process   *faults.Process
	under     http.RoundTripper
	eventTime time.Duration
}

// ordered returns the connection of a process, in the order that the script says, if it says one.
func (p *process) ordered() http.RoundTripper {
	switch {
	case p.script.is(eventFirst):
		return &orderedLink{p.Process, p, responseTime - orderGap}
	case p.script.is(responseFirst):
		return &orderedLink{p.Process, p, responseTime + orderGap}
	}
	return p
}

// RoundTrip is http.RoundTripper's.
func (l *orderedLink) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.under.RoundTrip(req)
	if err != nil || strings.Contains(req.URL.Path, "/leases") || strings.Contains(req.URL.Path, "/selfsubject") {
		return resp, err
	}
	switch {
	case strings.Contains(req.URL.RawQuery, "watch="):
		resp.Body = newDelayed(resp.Body, l.eventTime)
	case req.Method != http.MethodGet && !strings.Contains(req.URL.RawQuery, "dryRun="):
		if err := l.process.Sleep(req.Context(), responseTime); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, nil
}

// A delayed body hands on each part of another body so much later. One goroutine reads that, and ends
// when it ends or the body is closed.
type delayed struct {
	under  io.ReadCloser
	parts  chan piece
	now    piece
	once   sync.Once
	closed chan struct{}
}

type piece struct {
	data []byte
	err  error
	at   time.Time
}

func newDelayed(under io.ReadCloser, by time.Duration) *delayed {
	d := &delayed{under: under, parts: make(chan piece, 1000), closed: make(chan struct{})}
	go func() {
		for {
			buf := make([]byte, 4096)
			n, err := under.Read(buf)
			select {
			case d.parts <- piece{buf[:n], err, time.Now().Add(by)}:
			case <-d.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return d
}

// Read is io.Reader's.
func (d *delayed) Read(p []byte) (int, error) {
	if len(d.now.data) == 0 && d.now.err == nil {
		select {
		case d.now = <-d.parts:
		case <-d.closed:
			return 0, io.ErrClosedPipe
		}
		timer := time.NewTimer(time.Until(d.now.at))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, d.now.data)
	d.now.data = d.now.data[n:]
	if n == 0 && d.now.err != nil {
		return 0, d.now.err
	}
	return n, nil
}

// Close is io.Closer's.
func (d *delayed) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.under.Close()
}
