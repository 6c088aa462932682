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
	}
}

// NewHistory returns a History that no watcher knows of.
func NewHistory() *History {
	h := &History{}
	h.mu.running = map[*Watcher]struct{}{}
	return h
}

// join makes a watcher one of those that list anew. It has to leave.
func (h *History) join(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.running[w] = struct{}{}
}

func (h *History) leave(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.running, w)
}

func (h *History) current() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.number
}

// begins notes that a list has shown a new history, and returns its number. The list was
// asked for in the history since. If another watcher has shown a new one meanwhile, that
// is the same.
func (h *History) begins(since uint64, shownBy *Watcher) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.number != since {
		return h.mu.number
	}
	h.mu.number++
	for w := range h.mu.running {
		if w != shownBy {
			w.listAnew()
		}
	}
	return h.mu.number
}

// An ask is what was known when a list was asked for.
type ask struct {
	version string // what the list can't be older than, unless the history is a new one
	history uint64 // its number
}

// ask returns what is known now. A list without a resourceVersion is the newest there is.
func (w *Watcher) ask(version string) ask {
	if version == "" {
		version = w.Store.Position(w.stream)
	}
	return ask{version, w.History.current()}
}

// asks notes what is known when the Reflector asks for a list. If the API server may have
// a new history, it asks for the newest list there is: the resourceVersion that the
// Reflector names may be of the old one.
func (w *Watcher) asks(opts *metav1.ListOptions) {
	if opts.Continue != "" {
		return // a further page
	}
	w.mu.Lock()
	if w.mu.unsure == unsureOfAll {
		opts.ResourceVersion = ""
	}
	w.mu.unsure = sure // until there is reason for doubt again
	w.mu.Unlock()
	asked := w.ask(opts.ResourceVersion)
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
	defer w.mu.Unlock()
	w.mu.unsure = unsureOfAll
	if w.mu.stop != nil {
		w.mu.stop()
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
	asked := w.ask("")
	list, err := w.Client.List(ctx, w.Kind, w.Namespace, metav1.ListOptions{LabelSelector: w.Selector, Limit: 1})
	if err != nil {
		return err
	}
	if store.Older(list.ResourceVersion, delivered) || store.Older(list.ResourceVersion, asked.version) {
		w.History.begins(asked.history, w)
		w.listAnew()
		return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is of another history: the newest one is %s", delivered, list.ResourceVersion))
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
	w.mu.Lock()
	known := w.mu.history
	w.mu.Unlock()
	anew := known < asked.history
	change, proven := w.Store.ReplaceSince(asked.version, w.stream, resourcesOf(listed), version, anew)
	if known = asked.history; proven && !anew { // else another watcher has shown it before
		known = w.History.begins(asked.history, w)
	}
	w.mu.Lock()
	w.mu.history = max(w.mu.history, known)
	w.mu.Unlock()
	if proven || anew {
		w.Log.WarnContext(ctx, "the API server's resourceVersions have gone back, as after a restore of etcd from a backup; starting over with the list",
			"type", w.Kind.Type.String(), "from", asked.version, "to", version)
		if w.StartedOver != nil {
			w.StartedOver()
		}
	}
	return change
}
