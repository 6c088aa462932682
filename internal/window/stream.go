package window

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// keepAlive is how long a stream is silent at most.
const keepAlive = 15 * time.Second

// eventStream is the media type of streams.
const eventStream = "text/event-stream"

// A stream writes events to one client. Its methods may be called concurrently.
type stream struct {
	*answer
	log  *slog.Logger
	last atomic.Int64 // when something was written last, in nanoseconds
}

// stream begins to answer with events.
func (w *Window) stream(a *answer) *stream {
	a.rw.Header().Set("X-Accel-Buffering", "no") // proxies are to pass it on at once
	a.begin(eventStream)
	return &stream{answer: a, log: w.opts.Log}
}

// send writes an event. An error says that the client is gone, or takes nothing, or that the event can't be
// told.
func (s *stream) send(name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		s.log.Error("window: an event can't be told", "event", name, "error", err)
		return fmt.Errorf("event %s: %w", name, err)
	}
	return s.say("event: " + name + "\ndata: " + string(body) + "\n\n")
}

// say writes text, and notes when.
func (s *stream) say(text string) error {
	s.last.Store(time.Now().UnixNano())
	return s.write([]byte(text))
}

// tick writes a comment if nothing was written for long, so that proxies and clients know that the
// stream lives.
func (s *stream) tick() error {
	if time.Now().UnixNano()-s.last.Load() < int64(keepAlive) {
		return nil
	}
	return s.say(": \n\n")
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
