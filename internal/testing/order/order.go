// Package order decides which arrives first, the response to a write or its watch event. On a network either may.
package order

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// An Order is what arrives first.
type Order string

// The orders.
const (
	EventFirst    Order = "event-first"
	ResponseFirst Order = "response-first"
)

// A response to a write arrives responseTime after the write. Its event arrives gap earlier or later.
const (
	responseTime = 3 * time.Millisecond
	gap          = time.Microsecond
)

// A Link has the responses to writes and their events arrive in an order.
type Link struct {
	Order Order // "": as they come
	Under http.RoundTripper
	// Sleep waits, and fails if the request fails meanwhile.
	Sleep func(ctx context.Context, d time.Duration) error
}

// RoundTrip is http.RoundTripper's.
func (l *Link) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.Under.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return l.Deliver(req, resp)
}

// Deliver returns the response to a request of another connection, in its order. Leases and reviews of rights are left
// alone.
func (l *Link) Deliver(req *http.Request, resp *http.Response) (*http.Response, error) {
	if l.Order == "" || strings.Contains(req.URL.Path, "/leases") || strings.Contains(req.URL.Path, "/selfsubject") {
		return resp, nil
	}
	switch {
	case strings.Contains(req.URL.RawQuery, "watch=") && l.Order == EventFirst:
		resp.Body = newDelayed(resp.Body, responseTime-gap)
	case strings.Contains(req.URL.RawQuery, "watch="):
		resp.Body = newDelayed(resp.Body, responseTime+gap)
	case req.Method != http.MethodGet && !strings.Contains(req.URL.RawQuery, "dryRun="):
		if err := l.Sleep(req.Context(), responseTime); err != nil {
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
