package logbuffer

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending bounds the lines that are buffered, in bytes; a single line may be
	// longer.
	maxPending = 1 << 20
	// patience is how long a call of Write waits until its line is out.
	patience = 100 * time.Millisecond
	// keptBuffer is the largest buffer that is used again, in bytes.
	keptBuffer = 64 << 10
)

// A Writer writes lines to a log in the order in which it gets them. Its methods may be
// called concurrently.
//
// Write waits until the line is out, but for no more than a tenth of a second. If the log
// takes longer, then Write only buffers, and doesn't wait again before everything is out.
// A line for which the buffer has no room is dropped, and so are those after it until
// there is room for all. The number of lines that were dropped, or that couldn't be
// written, follows in their place as soon as the log takes lines again.
type Writer struct {
	out    io.Writer
	notice func(dropped int) []byte
	lost   atomic.Uint64

	turn    chan struct{} // has room for one: the call of Write that uses timer
	timer   *time.Timer   // set while that call waits
	wake    chan struct{} // holds a token while run should look for lines
	written chan struct{} // holds a token after lines were written
	ended   chan struct{} // closed when run has ended

	mu struct {
		sync.Mutex
		pending []byte // lines that wait to be written
		dropped int    // how many lines were dropped after those
		got     uint64 // lines that were put into pending so far,
		out     uint64 // and how many of them are out, or lost
		late    bool   // a call has waited in vain, and not everything is out yet
		closed  bool
	}
}

// New returns a Writer to out, which nobody else should write to. notice returns the line
// that says how many lines were dropped; it is called by the Writer's goroutine. The
// caller must call Close.
func New(out io.Writer, notice func(dropped int) []byte) *Writer {
	w := &Writer{
		out: out, notice: notice, turn: make(chan struct{}, 1), timer: time.NewTimer(patience),
		wake: make(chan struct{}, 1), written: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	w.timer.Stop()
	go w.run()
	return w
}

// Write writes a line, or keeps it to be written, or drops it. A line is what one call
// gets. The error is io.ErrClosedPipe after Close, else nil.
func (w *Writer) Write(line []byte) (int, error) {
	if len(line) == 0 {
		return 0, nil
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	at, wait, err := w.put(line)
	if err != nil {
		return 0, err
	}
	if wait {
		w.await(at)
	}
	return len(line), nil
}

// put takes in a line. It returns the number of the line, and whether to wait until the
// line is out.
func (w *Writer) put(line []byte) (at uint64, wait bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return 0, false, io.ErrClosedPipe
	}
	if len(w.mu.pending) > 0 && (w.mu.dropped > 0 || len(w.mu.pending)+len(line) > maxPending) {
		w.mu.dropped++
		w.lost.Add(1)
		return 0, false, nil
	}
	w.mu.pending = append(w.mu.pending, line...)
	w.mu.got++
	signal(w.wake)
	return w.mu.got, !w.mu.late, nil
}

// await waits until the line of this number is out, but no longer than patience.
func (w *Writer) await(at uint64) {
	w.timer.Reset(patience)
	defer w.timer.Stop()
	for !w.isOut(at) {
		select {
		case <-w.written:
		case <-w.timer.C:
			w.mu.Lock()
			w.mu.late = w.mu.out < w.mu.got
			w.mu.Unlock()
			return
		}
	}
}

func (w *Writer) isOut(at uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.out >= at
}

// Dropped returns how many lines were dropped, or couldn't be written.
func (w *Writer) Dropped() uint64 { return w.lost.Load() }

// Close ends the Writer. It returns when all lines are out, or after this time at most.
// It may be called more than once.
func (w *Writer) Close(atMost time.Duration) {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	signal(w.wake)
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
	}
}

// run writes lines until Close.
func (w *Writer) run() {
	defer close(w.ended)
	l := log{w: w}
	var lines []byte
	for range w.wake {
		for {
			var dropped int
			var upTo uint64
			var more bool
			lines, dropped, upTo, more = w.take(lines)
			if !more {
				break
			}
			l.write(lines, dropped)
			w.mu.Lock()
			w.mu.out = upTo
			w.mu.Unlock()
			signal(w.written)
		}
		if w.isClosed() {
			return
		}
	}
}

// take returns the lines that wait, how many were dropped after them, and the number of
// the last one; more is false if there are none. Those that come next are put into used,
// which nobody else uses any more.
func (w *Writer) take(used []byte) (lines []byte, dropped int, upTo uint64, more bool) {
	if cap(used) > keptBuffer {
		used = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.pending) == 0 {
		w.mu.late = false
		return used, 0, 0, false
	}
	lines, dropped, upTo = w.mu.pending, w.mu.dropped, w.mu.got
	w.mu.pending, w.mu.dropped = used[:0], 0
	return lines, dropped, upTo, true
}

func (w *Writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.closed && len(w.mu.pending) == 0
}

// signal puts a token into a channel that has room for one, unless it holds one.
func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// A log is what a Writer writes to. It belongs to the Writer's goroutine.
type log struct {
	w       *Writer
	missing int // how many lines are missing at the end of what was written
}

// write writes lines, and how many were dropped after them. Lines that can't be written
// are missing like those that were dropped.
func (l *log) write(lines []byte, dropped int) {
	if l.missing > 0 && !l.tell() {
		l.lose(lines)
	} else if n, err := l.w.out.Write(lines); err != nil {
		l.lose(lines[max(0, min(n, len(lines))):])
	}
	l.missing += dropped
	if l.missing > 0 {
		l.tell()
	}
}

// lose counts lines that couldn't be written.
func (l *log) lose(lines []byte) {
	n := bytes.Count(lines, []byte("\n"))
	l.missing += n
	l.w.lost.Add(uint64(n))
}

// tell writes how many lines are missing, and returns false if that can't be written
// either.
func (l *log) tell() bool {
	if _, err := l.w.out.Write(l.w.notice(l.missing)); err != nil {
		return false
	}
	l.missing = 0
	return true
}
