package window

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// patience is how long a client may take nothing.
const patience = 10 * time.Second

// errOver says that nothing may be written any more, since the request was answered.
var errOver = errors.New("the answer is over")

// An answer is one that lasts: a stream, or a file. Its methods may be called concurrently.
type answer struct {
	rw      http.ResponseWriter
	control *http.ResponseController
	begun   bool // there is a status; it belongs to the goroutine that answers

	turn sync.Mutex // held while something is written
	mu   struct {
		sync.Mutex
		cancel  context.CancelFunc // ends the context of the answer; nil: it has none yet
		writing bool               // a write is under way
		err     error              // why nothing can be written any more; nil: it can
	}
}

func newAnswer(rw http.ResponseWriter) *answer {
	return &answer{rw: rw, control: http.NewResponseController(rw)}
}

// begin sends the status.
func (a *answer) begin(mediaType string) {
	a.begun = true
	a.rw.Header().Set("Content-Type", mediaType)
	a.rw.WriteHeader(http.StatusOK)
}

// write sends text, unless an earlier write has failed. An error says that the client is gone or takes
// nothing, or that the answer is over.
func (a *answer) write(text []byte) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	if err := a.renew(); err != nil {
		return err
	}
	_, err := a.rw.Write(text)
	if err == nil {
		err = a.control.Flush()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.writing = false
	if err != nil && a.mu.err == nil {
		a.mu.err = fmt.Errorf("answer: %w", err)
	}
	return a.mu.err
}

// renew gives the client time for one more write.
func (a *answer) renew() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.err != nil {
		return a.mu.err
	}
	if err := a.control.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		a.mu.err = fmt.Errorf("answer: %w", err)
	}
	a.mu.writing = a.mu.err == nil
	return a.mu.err
}

// cut ends the answer at once, even one whose client takes nothing.
func (a *answer) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.cancel != nil {
		a.mu.cancel()
	}
	if a.mu.writing {
		_ = a.control.SetWriteDeadline(time.Unix(1, 0)) // one that has no deadlines ends by itself
	}
	if a.mu.err == nil {
		a.mu.err = errOver
	}
}

// finish has nothing written any more: whoever still tries gets an error. It waits for the end of a
// write that is under way.
func (a *answer) finish() {
	a.cut()
	a.turn.Lock()
	defer a.turn.Unlock()
}
