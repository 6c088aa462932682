package storm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A watchBody is the body of the answer to a watch, whose frames are late, cut or lost with the
// connection.
type watchBody struct {
	*process
	ctx    context.Context //nolint:containedctx // that of the request
	name   string
	under  io.ReadCloser
	frames *bufio.Reader
	rest   []byte
	err    error
	once   sync.Once
	closed chan struct{}
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
	if b.killed.Load() {
		return nil, errDead
	}
	if bytes.Contains(frame, []byte(`"type":"BOOKMARK"`)) {
		return frame, nil
	}
	f := b.world.dice.next(b.name, frames)
	b.world.met(b.process, b.name, f)
	wait := f.Delay
	if f.Outcome == frameHang {
		wait = b.world.pace.hang
	}
	if err := b.pause(wait); err != nil {
		return nil, err
	}
	switch f.Outcome {
	case frameEnd:
		return nil, io.EOF
	case frameHalf:
		return frame[:len(frame)/2], io.ErrUnexpectedEOF
	case frameHang:
		return nil, broken("client connection lost")
	case frameGone:
		return []byte(`{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"), io.EOF
	}
	return frame, nil
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
	case <-b.ctx.Done():
	case <-b.dead:
		return errDead
	}
	return b.ctx.Err()
}

// Close is io.Closer's.
func (b *watchBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.under.Close()
}
