package faults

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A watchBody is the body of the answer to a watch, whose frames are late, cut, lost with the
// connection, or told again.
type watchBody struct {
	link     *Link
	exchange *Exchange
	under    io.ReadCloser
	frames   *bufio.Reader
	rest     []byte // of what is told already
	err      error
	kept     []byte // frames that are told again
	keep     int    // so many more are kept before that
	once     sync.Once
	closed   chan struct{}
}

// Read is io.Reader's.
func (b *watchBody) Read(to []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.rest, b.err = b.frame()
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *watchBody) frame() ([]byte, error) {
	frame, err := b.frames.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if b.link.Process.Killed() {
		return nil, ErrDead
	}
	f := Fault{}
	if b.link.Frame != nil {
		f = b.link.Frame(b.exchange, frame)
	}
	wait := f.Delay
	if f.Outcome == Hang {
		wait = b.link.Hang
	}
	if err := b.pause(wait); err != nil {
		return nil, err
	}
	switch f.Outcome {
	case End:
		return nil, io.EOF
	case Half:
		return frame[:len(frame)/2], io.ErrUnexpectedEOF
	case Hang:
		return nil, Broken("client connection lost")
	case Gone:
		return []byte(`{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"), io.EOF
	}
	return b.again(f, frame), nil
}

// again returns a frame, and those that are told again after it.
func (b *watchBody) again(f Fault, frame []byte) []byte {
	if !bytes.Contains(frame, []byte(`"type":"ADDED"`)) && !bytes.Contains(frame, []byte(`"type":"MODIFIED"`)) && !bytes.Contains(frame, []byte(`"type":"DELETED"`)) {
		return frame
	}
	if n, ok := strings.CutPrefix(f.Outcome, again); ok && b.keep == 0 {
		b.keep, _ = strconv.Atoi(n) // it is Again's
	}
	if b.keep == 0 {
		return frame
	}
	b.kept = append(b.kept, frame...)
	if b.keep--; b.keep > 0 {
		return frame
	}
	frame = append(frame, b.kept...)
	b.kept = nil
	return frame
}

func (b *watchBody) pause(d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.closed:
		return errors.New("read on closed body")
	case <-b.exchange.Context().Done():
	case <-b.link.Process.Dead():
		return ErrDead
	}
	return b.exchange.Context().Err()
}

// Close is io.Closer's.
func (b *watchBody) Close() error {
	b.once.Do(func() {
		close(b.closed)
		if b.link.Closed != nil {
			b.link.Closed(b.exchange)
		}
	})
	return b.under.Close()
}
