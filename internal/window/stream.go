package window

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// patience is how long a client may take nothing.
	patience = 10 * time.Second
	// keepAlive is how long a stream is silent at most.
	keepAlive = 15 * time.Second
)

// A stream writes events to one client. Its methods may be called concurrently.
type stream struct {
	rw      http.ResponseWriter
	control *http.ResponseController

	mu struct {
		sync.Mutex
		err  error     // why nothing can be written any more
		last time.Time // when something was written last
	}
}

// newStream begins the answer to a request.
func newStream(rw http.ResponseWriter) *stream {
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no") // proxies are to pass it on at once
	rw.WriteHeader(http.StatusOK)
	return &stream{rw: rw, control: http.NewResponseController(rw)}
}

// send writes an event. An error says that the client is gone, or takes nothing.
func (s *stream) send(name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("event %s: %w", name, err)
	}
	return s.write("event: " + name + "\ndata: " + string(body) + "\n\n")
}

// write writes text, unless an earlier write has failed.
func (s *stream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return s.mu.err
	}
	s.mu.last = time.Now()
	s.mu.err = s.writeLocked(text)
	return s.mu.err
}

func (s *stream) writeLocked(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("stream: %w", err)
	}
	if _, err := s.rw.Write([]byte(text)); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	return nil
}

// tick writes a comment if nothing was written for long, so that proxies and clients know that the
// stream lives.
func (s *stream) tick() error {
	s.mu.Lock()
	silent := time.Since(s.mu.last)
	s.mu.Unlock()
	if silent < keepAlive {
		return nil
	}
	return s.write(": \n\n")
}

// A problem is the data of an event of that name.
type problem struct {
	Error string `json:"error"`
}

// begun is the data of the event begin, but of an overview.
type begun struct {
	Operator string `json:"operator"`
}

// every calls do at once and then every period, until it fails or ctx ends.
func every(ctx context.Context, period time.Duration, do func() error) {
	for do() == nil && pause(ctx, period) {
	}
}
