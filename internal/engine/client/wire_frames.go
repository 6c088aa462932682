package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// A watch is a stream of JSON objects. client-go's own code would decode each of
// them twice, and most of the time that an event takes would go into that.

const (
	// maxEvent is the greatest length of a watch event, in bytes: ten times the
	// size up to which etcd stores an object by default.
	maxEvent = 16 << 20
	// frameBuffer is the least length of the buffer for a stream, in bytes.
	frameBuffer = 8 << 10
	// keptBuffer is the greatest length of a buffer that is kept, in bytes. A buffer
	// that a long event has made longer is dropped after the event.
	keptBuffer = 64 << 10
)

// A framer cuts a stream of JSON objects into frames.
type framer struct {
	only shard.Shard // whose objects alone there are frames of
}

func (f framer) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	return &frameReader{body: body, only: f.only}
}
func (framer) NewFrameWriter(w io.Writer) io.Writer { return w }

// A frameReader returns one JSON object, a frame, with each Read. It finds the end
// of an object by counting brackets, and leaves it to the decoder to refuse a
// malformed one. Close may be called concurrently with Read; nothing else may.
type frameReader struct {
	body io.ReadCloser
	only shard.Shard // frames that tell of an object of another one are left out
	mem  []byte      // the whole buffer
	buf  []byte      // the part of mem that has been read from body and not been returned
	pos  int         // how far buf has been scanned; its frame begins at 0
	rest []byte      // the part of buf that the next Read returns: the rest of a frame
	used int         // the length of the frame at the beginning of buf that Read returns

	depth    int  // of brackets, at pos
	inString bool // pos is within a string
}

// Close closes the body, which ends a Read that waits.
func (r *frameReader) Close() error { return r.body.Close() }

// Read returns a frame. If data is too short, it returns the beginning of the frame
// with io.ErrShortBuffer, and the next Read returns the rest. If the stream ends
// within a frame, the error is io.ErrUnexpectedEOF.
func (r *frameReader) Read(data []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
		if r.drops(r.rest) {
			r.rest = nil
		}
	}
	n := copy(data, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// next reads a whole frame into rest.
func (r *frameReader) next() error {
	r.buf, r.used = r.buf[r.used:], 0
	r.pos, r.depth, r.inString = 0, 0, false
	r.skipSpace()
	for {
		ends, err := r.scan()
		if err != nil {
			return err
		}
		if ends {
			r.used, r.rest = r.pos, r.buf[:r.pos]
			return nil
		}
		if len(r.buf) > maxEvent {
			return fmt.Errorf("watch: an event is longer than %d bytes", maxEvent)
		}
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) && len(r.buf) > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if r.depth == 0 {
			r.skipSpace()
		}
	}
}

func (r *frameReader) skipSpace() { r.buf = bytes.TrimLeft(r.buf, " \t\r\n") }

// fill reads some more of the body.
func (r *frameReader) fill() error {
	if len(r.buf) == 0 && len(r.mem) > keptBuffer {
		r.mem, r.buf = nil, nil
	}
	if cap(r.buf)-len(r.buf) < frameBuffer/2 {
		mem := r.mem
		if len(mem) < frameBuffer || len(r.buf) > len(mem)/2 {
			mem = make([]byte, max(2*len(mem), frameBuffer))
		}
		r.buf = mem[:copy(mem, r.buf)]
		r.mem = mem
	}
	for range 100 { // a reader may return nothing, but not for ever
		n, err := r.body.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if n > 0 {
			return nil // the error comes again
		}
		switch {
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil: // client-go would take the lost connection for an error of the API server, and list anew
			return io.ErrUnexpectedEOF
		}
	}
	return io.ErrNoProgress
}

// scan scans the bytes that have been read since the last scan, and says whether the
// frame ends in them, at pos.
func (r *frameReader) scan() (ends bool, err error) {
	for r.pos < len(r.buf) {
		if r.inString {
			quote := bytes.IndexByte(r.buf[r.pos:], '"')
			if quote < 0 {
				r.pos = len(r.buf)
				return false, nil
			}
			r.pos += quote + 1
			r.inString = jsonvalue.Escaped(r.buf[:r.pos-1])
			continue
		}
		c := r.buf[r.pos]
		if r.depth == 0 && c != '{' {
			return false, errors.New("watch: malformed stream: an event doesn't begin with {")
		}
		r.pos++
		switch c {
		case '"':
			r.inString = true
		case '{', '[':
			r.depth++
		case '}', ']':
			if r.depth--; r.depth == 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// An eventCodec decodes frames into metav1.WatchEvents. The raw object of an event
// is a part of the frame, and isn't validated: wireCodec does that.
type eventCodec struct{}

func (eventCodec) Identifier() runtime.Identifier { return "roperator-events" }

func (eventCodec) Encode(obj runtime.Object, w io.Writer) error {
	return json.NewEncoder(w).Encode(obj)
}

func (eventCodec) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("watch: decode into %T: not a WatchEvent", into)
	}
	gvk := metav1.SchemeGroupVersion.WithKind("WatchEvent")
	if t, raw, ok := splitEvent(data); ok {
		event.Type, event.Object.Raw = string(t), raw
		return event, &gvk, nil
	}
	if err := kjson.Unmarshal(data, event); err != nil {
		return nil, nil, errors.New("watch: malformed event") // the error might quote it
	}
	return event, &gvk, nil
}

// splitEvent splits an event into its type and its object, without decoding the
// object. It returns false unless the event is written as kube-apiserver writes it.
// The event is valid JSON if, and only if, the object returned is.
func splitEvent(data []byte) (t watch.EventType, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !ok {
		return "", nil, false
	}
	for _, t := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if after, ok := bytes.CutPrefix(rest, []byte(t)); ok {
			after, ok = bytes.CutPrefix(after, []byte(`","object":`))
			object, closed := bytes.CutSuffix(after, []byte(`}`))
			return t, object, ok && closed
		}
	}
	return "", nil, false
}
