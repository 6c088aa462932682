package recording

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// ErrFailed is what a Writer returns once its file couldn't be written to.
var ErrFailed = errors.New("recording: it couldn't be written to before")

// A Writer writes a recording, call by call. Its methods may be called concurrently.
type Writer struct {
	hide   Hider // by a key that is never written
	failed atomic.Bool

	mu struct {
		sync.Mutex
		w     io.Writer
		begun bool
	}
}

// NewWriter returns a Writer to w. What isn't told is hidden by a key of the Writer's own,
// so that equal values are equal in one recording, and two can't be compared. w isn't
// written to concurrently, and not buffered.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{hide: ByKey(rand.Text())}
	out.mu.w = w
	return out
}

// Call writes one call, and before the first one the header. A call that can't be encoded
// isn't written, and the next one may be. Once the file couldn't be written to, the
// recording has ended: the error says why, and is ErrFailed from then on.
func (w *Writer) Call(c Call) error {
	if w.failed.Load() {
		return ErrFailed
	}
	text, err := Encode(c, w.hide)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed.Load() {
		return ErrFailed
	}
	if err := w.write(text); err != nil {
		w.failed.Store(true)
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// write is called under the lock.
func (w *Writer) write(text []byte) error {
	if !w.mu.begun {
		head, err := headerLine()
		if err != nil {
			return err
		}
		text = append(head, text...)
		w.mu.begun = true
	}
	_, err := w.mu.w.Write(append(text, '\n'))
	return err
}
