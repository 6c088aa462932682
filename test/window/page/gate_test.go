package page

import (
	"context"
	"net/http"
	"sync"
)

// A gate stands before the data of a window. While it is shut, requests are answered 503, and those that
// were let through end.
type gate struct {
	mu     sync.Mutex
	closed bool
	ends   []context.CancelFunc
}

func (g *gate) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		g.mu.Lock()
		closed := g.closed
		g.ends = append(g.ends, cancel)
		g.mu.Unlock()
		if closed {
			http.Error(rw, "closed for a while", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(rw, req.WithContext(ctx))
	})
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, end := range g.ends {
		end()
	}
	g.ends = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
