package recording

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
)

// maxTapped is how many parents are tapped at once.
const maxTapped = 16

// A Tap keeps the calls of a handler about parents that somebody looks at. It is for one
// operator, whose parents it tells apart by namespace and name. Its methods may be called
// concurrently.
type Tap struct {
	maxLines, maxBytes int
	hide               Hider        // by a key that is never told
	open               atomic.Int32 // how many parents are tapped

	mu struct {
		sync.Mutex
		parents map[types.NamespacedName]*tapped
	}
}

// A tapped parent is one that somebody looks at. The Tap's lock guards it.
type tapped struct {
	openers int
	lines   [][]byte // oldest first; a line isn't modified
	bytes   int      // of lines
}

// NewTap returns a Tap that keeps the newest calls of each parent: at most maxLines, of at most
// maxBytes bytes in total.
func NewTap(maxLines, maxBytes int) *Tap {
	t := &Tap{maxLines: maxLines, maxBytes: maxBytes, hide: ByKey(rand.Text())}
	t.mu.parents = map[types.NamespacedName]*tapped{}
	return t
}

// Handler returns a handler that does what inner does. While a parent is open, each call
// about it is encoded as soon as inner has returned, and kept. Not kept is a call that
// panics, and one that is part of a plan: see handler.IsPlan. While no parent is open, a
// call costs an atomic load.
func (t *Tap) Handler(inner handler.Handler) handler.Handler { return Watch(inner, t.wants, t.keep) }

// Open has calls about a parent kept until release is called, and until everybody else
// who has opened the parent has released it, too. Then what was kept of it is dropped.
// release may be called more than once. While 16 other parents are open, Open does nothing.
func (t *Tap) Open(parent types.NamespacedName) (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.mu.parents[parent]
	if p == nil {
		if len(t.mu.parents) >= maxTapped {
			return func() {}
		}
		p = &tapped{}
		t.mu.parents[parent] = p
		t.open.Add(1)
	}
	p.openers++
	return sync.OnceFunc(func() { t.release(parent, p) })
}

func (t *Tap) release(parent types.NamespacedName, p *tapped) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.openers--; p.openers == 0 {
		delete(t.mu.parents, parent)
		t.open.Add(-1)
	}
}

// Calls returns the calls that are kept of a parent, oldest first, a line each for Write.
// The lines are read only, and hold no value of a Secret: see [Hidden]. A call that alone
// is too large, or can't be encoded, isn't among them; what can't be encoded the engine
// refuses, too.
func (t *Tap) Calls(parent types.NamespacedName) [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.mu.parents[parent]
	if p == nil {
		return nil
	}
	return slices.Clone(p.lines)
}

// Encode returns the line of a call that was made by hand, as Calls returns those of the
// engine's: equal values are equal over all of them. resp is as in a [Call].
func (t *Tap) Encode(kind Kind, req *handler.SyncRequest, resp any, err error) ([]byte, error) {
	return Encode(Call{Kind: kind, Request: req, Response: resp, Err: err}, t.hide)
}

// Write writes a recording of lines that Calls or Encode returned. Without a line it is
// one that testkit.Replay refuses.
func (t *Tap) Write(w io.Writer, lines [][]byte) error {
	out := bufio.NewWriter(w)
	head, err := headerLine()
	if err == nil {
		_, err = out.Write(head)
	}
	for _, text := range lines {
		if err == nil {
			_, err = out.Write(text)
		}
		if err == nil {
			err = out.WriteByte('\n')
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// wants says whether a call is to be kept.
func (t *Tap) wants(ctx context.Context, req *handler.SyncRequest) bool {
	if t.open.Load() == 0 || req == nil || req.Parent == nil || handler.IsPlan(ctx) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.parents[req.Parent.Key()] != nil
}

// keep keeps a call, unless nobody looks at its parent any more.
func (t *Tap) keep(_ context.Context, c Call) {
	text, err := Encode(c, t.hide)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.mu.parents[c.Request.Parent.Key()]
	if p != nil && err == nil && len(text) <= t.maxBytes && t.maxLines > 0 {
		p.add(text, t.maxLines, t.maxBytes)
	}
}

// add keeps a line, and drops the oldest ones for which there is no room then.
func (p *tapped) add(text []byte, maxLines, maxBytes int) {
	p.lines = append(p.lines, text)
	p.bytes += len(text)
	first := 0
	for len(p.lines)-first > maxLines || p.bytes > maxBytes {
		p.bytes -= len(p.lines[first])
		first++
	}
	p.lines = slices.Delete(p.lines, 0, first)
}
