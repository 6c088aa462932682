package window

import (
	"context"
	"sync"
	"time"
)

// A hub looks at one operator for all who follow it. While nobody does, it doesn't look and has no
// goroutine. It is safe for concurrent use.
type hub struct {
	look func() (seen look, ok bool) // false: it can't be looked at

	mu struct {
		sync.Mutex
		followers map[chan look]struct{} // each has room for one look, the newest
		newest    *look                  // nil: there is none since the first follower came
		stop      chan struct{}          // closed when the last follower leaves; nil: nobody follows
		ended     chan struct{}          // closed when the goroutine that was started last has ended; nil: there was none
	}
}

func newHub(see func() (look, bool)) *hub {
	h := &hub{look: see}
	h.mu.followers = map[chan look]struct{}{}
	return h
}

// join returns a channel that gets the newest look again and again, until leave is called. Whoever is slow
// misses those between. The channel is closed if the operator can't be looked at.
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
	if last && h.mu.stop != nil {
		close(h.mu.stop)
		h.mu.stop, h.mu.newest = nil, nil
	}
	h.mu.Unlock()
	if last {
		<-ended
	}
}

// run looks once a lookEvery, until stop is closed or a look fails.
func (h *hub) run(stop <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		seen, ok := h.look()
		if !ok {
			h.fail(stop)
			return
		}
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

// fail leaves all followers without looks.
func (h *hub) fail(stop <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-stop: // these aren't the followers for whom this goroutine looks
		return
	default:
	}
	for own := range h.mu.followers {
		close(own)
	}
	clear(h.mu.followers)
	h.mu.stop, h.mu.newest = nil, nil
}

// follow calls tell with each look of the hub, until tell fails, the hub does or ctx ends. The hub looks as long
// as somebody follows it.
func (h *hub) follow(ctx context.Context, tell func(look) error) {
	looks, leave := h.join()
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return
		case seen, ok := <-looks:
			if !ok || tell(seen) != nil {
				return
			}
		}
	}
}
