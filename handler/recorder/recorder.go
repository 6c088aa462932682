package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
)

const (
	defaultMaxBytes = 10 << 20
	minMaxBytes     = 4 << 10
	defaultFiles    = 3
	// retryAfter is how long nothing is tried after the file couldn't be written.
	retryAfter = time.Minute
)

// Options say into which files a [Recorder] records what.
type Options struct {
	// Path is the file that is written. A full one is renamed to Path with ".1" appended, the
	// one that had that name to ".2", and so on.
	Path string
	// MaxBytes is the size that a file has at most. 0 means 10 MiB; less than 4096 is an error.
	// A call that alone needs more isn't recorded.
	MaxBytes int64
	// Files is how many files there are at most, with the one that is written. 0 means 3. The
	// oldest is removed when there would be one more, and so are those that a Recorder with
	// more Files has left.
	Files int
	// Select says whether calls about a parent are recorded; nil means that all are. It is
	// called before the handler, by the goroutine of the call, so that it may be called
	// concurrently. It is not called for a plan, nor after Close.
	Select func(parent *resource.Resource) bool
	// Logger is told which calls aren't recorded, and why: each reason once. nil means
	// slog.Default() at the time of the message.
	Logger *slog.Logger
}

// withDefaults returns the options with nothing left out, or an error that names the field
// which is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Files == 0 {
		o.Files = defaultFiles
	}
	switch {
	case o.Path == "":
		return o, errors.New("Path: must be set")
	case o.MaxBytes < minMaxBytes:
		return o, fmt.Errorf("MaxBytes: %d: must be 0 or at least %d", o.MaxBytes, minMaxBytes)
	case o.Files < 0:
		return o, fmt.Errorf("Files: %d: must not be negative", o.Files)
	}
	return o, nil
}

// A Recorder is a handler that does what another one does, and records its calls. Its methods
// may be called concurrently.
type Recorder struct {
	watched  handler.Handler // calls the handler, and then record
	opts     Options
	tap      *recording.Tap // taps nothing: it encodes, by a key of its own
	headSize int64          // of the first line of a file
	closed   atomic.Bool    // is set under the lock

	mu struct {
		sync.Mutex
		files      *chain
		retry      time.Time // when to try to write again; zero: the last write has succeeded
		missed     int       // how many calls were missed since that isn't so any more
		unrecorded unrecorded
	}
}

// Unrecorded counts calls that should have been recorded, by why they weren't.
type unrecorded struct{ tooLarge, notEncoded, notWritten int }

var _ handler.Relater = (*Recorder)(nil)

// New returns a Recorder of the calls of h. It opens the file, which is created if it isn't
// there. The error says which of the options is wrong, or why there can be no such file.
func New(h handler.Handler, opts Options) (*Recorder, error) {
	if h == nil {
		return nil, errors.New("recorder: the handler is nil")
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	r := &Recorder{opts: opts, tap: recording.NewTap(0, 0)}
	r.watched = recording.Watch(h, r.wants, r.record)
	var head bytes.Buffer
	if err := r.tap.Write(&head, nil); err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	r.headSize = int64(head.Len())
	r.mu.files = &chain{path: opts.Path, maxBytes: opts.MaxBytes, files: opts.Files, head: head.Bytes()}
	if err := r.mu.files.open(); err != nil {
		return nil, fmt.Errorf("recorder: Path: %w", err)
	}
	return r, nil
}

// Sync calls the handler's Sync.
func (r *Recorder) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	return r.watched.Sync(ctx, req)
}

// Finalize calls the handler's Finalize.
func (r *Recorder) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return r.watched.Finalize(ctx, req)
}

// Finalizes says whether the handler has something to finalize: see handler.Finalizes.
func (r *Recorder) Finalizes() bool { return handler.Finalizes(r.watched) }

// Relates says whether the handler says what parents refer to: see handler.Relates.
func (r *Recorder) Relates() bool { return handler.Relates(r.watched) }

// Relate returns what the handler says that a parent refers to. It isn't recorded: what the
// parent referred to is part of each call.
func (r *Recorder) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return handler.Relate(r.watched, parent)
}

// Close closes the file, and logs how many calls weren't recorded, if there were any. From then
// on the Recorder is the handler alone: calls that return later aren't recorded. Each line is
// written when its call returns, so a process that ends without Close loses none. Close may be
// called again.
func (r *Recorder) Close() error {
	lost, err := r.close()
	if lost != (unrecorded{}) {
		r.log().Warn("handler calls weren't recorded", "path", r.opts.Path,
			"tooLarge", lost.tooLarge, "notEncoded", lost.notEncoded, "notWritten", lost.notWritten)
	}
	if err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	return nil
}

func (r *Recorder) close() (unrecorded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Swap(true) {
		return unrecorded{}, nil
	}
	return r.mu.unrecorded, r.mu.files.close()
}

// wants says whether a call is to be recorded.
func (r *Recorder) wants(ctx context.Context, req *handler.SyncRequest) bool {
	if r.closed.Load() || handler.IsPlan(ctx) || req == nil || req.Parent == nil {
		return false
	}
	return r.opts.Select == nil || r.opts.Select(req.Parent)
}

// record records a call that has returned.
func (r *Recorder) record(ctx context.Context, c recording.Call) {
	if r.isWaiting() {
		return
	}
	line, err := r.tap.Encode(c.Kind, c.Request, c.Response, c.Err)
	if err != nil {
		r.leaveOut(ctx, c, func(u *unrecorded) *int { return &u.notEncoded }, err)
		return
	}
	line = append(line, '\n')
	if size := r.headSize + int64(len(line)); size > r.opts.MaxBytes {
		err := fmt.Errorf("a file with it alone would have %d bytes, and MaxBytes is %d", size, r.opts.MaxBytes)
		r.leaveOut(ctx, c, func(u *unrecorded) *int { return &u.tooLarge }, err)
		return
	}
	switch turned, missed, err := r.write(line); {
	case turned && err != nil:
		r.log().WarnContext(ctx, "handler calls aren't recorded, since the file can't be written", "error", err, "retryAfter", retryAfter.String())
	case turned:
		r.log().InfoContext(ctx, "handler calls are recorded again", "path", r.opts.Path, "missed", missed)
	}
}

// isWaiting says whether a call passes unrecorded since the file couldn't be written a moment
// ago, and counts it then.
func (r *Recorder) isWaiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.retry.IsZero() || !time.Now().Before(r.mu.retry) {
		return false
	}
	r.miss()
	return true
}

// miss counts a call that couldn't be written. Its caller holds the lock.
func (r *Recorder) miss() {
	r.mu.missed++
	r.mu.unrecorded.notWritten++
}

// leaveOut counts a call that can't be recorded, and logs the first one that can't for the same
// reason.
func (r *Recorder) leaveOut(ctx context.Context, c recording.Call, counter func(*unrecorded) *int, reason error) {
	r.mu.Lock()
	count := counter(&r.mu.unrecorded)
	*count++
	first := *count == 1
	r.mu.Unlock()
	if first {
		parent := c.Request.Parent
		r.log().WarnContext(ctx, "a handler call isn't recorded; others for this reason are only counted",
			"kind", parent.Type().Kind, "parent", parent.Key().String(), "call", string(c.Kind), "error", reason)
	}
}

// write writes a line. turned says that this succeeds and the last time failed, or the other way
// round: then missed is how many calls were missed meanwhile.
func (r *Recorder) write(line []byte) (turned bool, missed int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Load() {
		return false, 0, nil
	}
	succeeded := r.mu.retry.IsZero()
	if err := r.mu.files.write(line); err != nil {
		r.mu.retry = time.Now().Add(retryAfter)
		r.miss()
		return succeeded, r.mu.missed, err
	}
	missed = r.mu.missed
	r.mu.retry, r.mu.missed = time.Time{}, 0
	return !succeeded, missed, nil
}

func (r *Recorder) log() *slog.Logger {
	if r.opts.Logger == nil {
		return slog.Default()
	}
	return r.opts.Logger
}
