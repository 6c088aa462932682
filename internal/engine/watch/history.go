package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/store"
)

// An API server whose etcd was restored from a backup has a new history, with lower
// resourceVersions. The store finds out by a list: see store.ReplaceSince. A watch from
// a resourceVersion of the old history isn't refused. It says nothing until the new
// history has got there, and nothing ever of what came before. So a list must be made
// first.
//
// No etcd is restored but while the API server is down. So a watcher lists anew whenever
// the API server couldn't be reached. After a watch that ended before its time, it asks
// for a list of one object, in case nobody has tried to reach the API server meanwhile.
// That finds out unless the new history has overtaken the old one by then.

// A History is what the watchers of one operator know of the API server's history. If one
// of them finds out that the history is a new one, all others list anew and start over
// too: a list needn't show it. Its methods may be called concurrently.
type History struct {
	mu struct {
		sync.Mutex
		number  uint64 // how many new histories have begun
		running map[*Watcher]struct{}
		listed  map[content]uint64 // content -> the number of the history in which it was listed last
	}
}

// A content is what a mirror holds of a stream. All watchers that fill it share it: the one
// that runs, and those that only list. A related type has several watchers of one stream in
// turn, each with a mirror of its own.
type content struct {
	in Mirror
	of store.Stream
}

// content returns what the watcher fills.
func (w *Watcher) content() content { return content{w.Store, w.stream} }

// NewHistory returns a History that no watcher knows of.
func NewHistory() *History {
	h := &History{}
	h.mu.running, h.mu.listed = map[*Watcher]struct{}{}, map[content]uint64{}
	return h
}

// join makes a watcher one of those that list anew. It has to leave. What it lists is of the
// history that is known by then.
func (h *History) join(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.running[w] = struct{}{}
	h.mu.listed[w.content()] = h.mu.number
}

// leave forgets a watcher, and what it has filled.
func (h *History) leave(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.running, w)
	delete(h.mu.listed, w.content())
}

func (h *History) current() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.number
}

// isNews says whether a content hasn't been listed since a new history was known.
func (h *History) isNews(to content, asked ask) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.listed[to] < asked.history
}

// note notes that a watcher has listed its content. If the list has shown a new history
// (begins), all other watchers list anew, unless another one has shown it meanwhile.
func (h *History) note(by *Watcher, asked ask, begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	listed := asked.history
	if begins {
		h.beginLocked(by, asked.history)
		listed = h.mu.number
	}
	h.mu.listed[by.content()] = max(h.mu.listed[by.content()], listed)
}

// begin notes that there is a newer history than the one with this number. All watchers
// list anew, unless one has found that out before.
func (h *History) begin(known uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beginLocked(nil, known)
}

func (h *History) beginLocked(by *Watcher, known uint64) {
	if h.mu.number != known {
		return
	}
	h.mu.number++
	for w := range h.mu.running {
		if w != by {
			w.listAnew()
		}
	}
}

// An ask is what was known when a list was asked for.
type ask struct {
	version string // what the list can't be older than, unless the history is a new one
	history uint64 // its number
	doubt   doubt  // whether the API server still has the history of the last watch
}

// ask returns what is known now. A list that is asked for now is the newest there is.
func (w *Watcher) ask() ask {
	return ask{version: w.Store.Position(w.stream), history: w.History.current()}
}

// asks notes what is known when the Reflector asks for a list, and has it ask for the
// newest list there is: the resourceVersion that the Reflector names may be of an old
// history, and lower than that of an own write. A list as new as that would show nothing.
// A doubt lasts until a list has arrived.
func (w *Watcher) asks(opts *metav1.ListOptions) {
	if opts.Continue != "" {
		return // a further page
	}
	w.mu.Lock()
	doubt := max(w.mu.unsure, w.mu.asked.doubt)
	w.mu.unsure = sure // until there is reason for doubt again
	w.mu.Unlock()
	opts.ResourceVersion = ""
	asked := w.ask()
	asked.doubt = doubt
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.asked = asked
}

// A doubt says what a watcher has to do before it goes on with a watch.
type doubt int

const (
	sure         doubt = iota // nothing
	unsureOfLast              // the last watch ended before its time, or failed: ask for a list of one object
	unsureOfAll               // the API server couldn't be reached: list anew
)

// doubtAfter returns the doubt that a failed request gives cause for. An API server that
// answers is up. If it is overloaded, whole lists would only make it worse.
func doubtAfter(err error) doubt {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return unsureOfLast
	}
	return unsureOfAll
}

// listAnew ends the watch, which may be of a history that has ended.
func (w *Watcher) listAnew() {
	w.mu.Lock()
	w.mu.unsure = unsureOfAll
	stop := w.mu.stop
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// checkHistory returns an error if a watch can't go on from a resourceVersion that an
// earlier one has delivered. The Reflector lists anew then.
func (w *Watcher) checkHistory(ctx context.Context, delivered string) error {
	w.mu.Lock()
	unsure := w.mu.unsure
	w.mu.Unlock()
	switch unsure {
	case sure:
		return nil
	case unsureOfAll:
		return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s may be of another history", delivered))
	}
	asked := w.ask()
	version, err := w.Client.Newest(ctx, w.Kind, w.Namespace, w.selected())
	if err != nil {
		return err
	}
	if store.Older(version, delivered) || store.Older(version, asked.version) {
		w.History.begin(asked.history)
		return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is of another history: the newest one is %s", delivered, version))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.unsure == unsureOfLast {
		w.mu.unsure = sure
	}
	return nil
}

// replace puts a complete list into the store.
func (w *Watcher) replace(ctx context.Context, asked ask, listed []*client.WireObject, version string) store.Change {
	anew := w.History.isNews(w.content(), asked)
	change, proven := w.Store.ReplaceSince(asked.version, w.stream, resourcesOf(listed), version, anew)
	w.History.note(w, asked, proven && !anew) // else another watcher has shown it before
	if proven || anew {
		w.Log.WarnContext(ctx, "the API server's resourceVersions have gone back, as after a restore of etcd from a backup; starting over with the list",
			"type", w.Kind.Type.String(), "from", asked.version, "to", version)
		if w.StartedOver != nil {
			w.StartedOver()
		}
	}
	if asked.doubt == unsureOfAll && w.Regained != nil {
		w.Regained()
	}
	return change
}
