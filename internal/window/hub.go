package window

import (
	"sync"
	"time"
)

// A hub looks at one operator for all who follow it. While nobody does, it doesn't look and has no
// goroutine. It is safe for concurrent use.
type hub struct {
	look func() look

	mu struct {
		sync.Mutex
		followers map[chan look]struct{} // each has room for one look, the newest
		newest    *look                  // nil: there is none since the first follower came
		stop      chan struct{}          // closed when the last follower leaves; nil: nobody follows
		ended     chan struct{}          // closed when the goroutine that was started last has ended; nil: there was none
	}
}

func newHub(see func() look) *hub {
	h := &hub{look: see}
	h.mu.followers = map[chan look]struct{}{}
	return h
}

// join returns a channel that gets the newest look again and again, until leave is called. Whoever is slow
// misses those between.
func (h *hub) join() (looks <-chan look, leave func()) {
	own := make(chan look, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.followers[own] = struct{}{}
	if h.mu.newest != nil {
		own <- *h.mu.newest
	}
	if h.mu.stop == nil {
		before, stop, ended := h.mu.ended, make(chan struct{}), make(chan struct{})
		h.mu.stop, h.mu.ended = stop, ended
		go func() { // ends after the last follower has left
			defer close(ended)
			if before != nil {
				<-before
			}
			h.run(stop)
		}()
	}
	return own, func() { h.leave(own) }
}

// leave takes a follower out. The last one waits for the end of the goroutine.
func (h *hub) leave(own chan look) {
	h.mu.Lock()
	delete(h.mu.followers, own)
	last, ended := len(h.mu.followers) == 0, h.mu.ended
	if last {
		close(h.mu.stop)
		h.mu.stop, h.mu.newest = nil, nil
	}
	h.mu.Unlock()
	if last {
		<-ended
	}
}

// run looks once a lookEvery, until stop is closed.
func (h *hub) run(stop <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		seen := h.look()
		seen.parents = sorted(seen.parents)
		h.pass(stop, seen)
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// pass gives a look to every follower, in the place of the one before if that wasn't taken.
func (h *hub) pass(stop <-chan struct{}, seen look) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-stop: // these aren't the followers for whom this goroutine looks
		return
	default:
	}
	h.mu.newest = &seen
	for own := range h.mu.followers {
		select {
		case <-own:
		default:
		}
		own <- seen // there is room: nobody else sends
	}
}
