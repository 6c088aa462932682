package manager

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// For clients that dawdle.
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	// closeTimeout is how long requests that are being answered may take when
	// everything else has ended.
	closeTimeout = time.Second
)

// A server answers those who watch over the operators.
type server struct {
	servers []*http.Server
	wg      sync.WaitGroup
}

// serve begins to listen at the addresses of the Options. Close ends it.
func (m *Manager) serve(ctx context.Context) (*server, error) {
	muxes := map[string]*http.ServeMux{}
	at := func(address string) *http.ServeMux {
		if muxes[address] == nil {
			muxes[address] = http.NewServeMux()
		}
		return muxes[address]
	}
	if m.opts.MetricsAddress != "" {
		page, err := m.opts.Metrics.Handler(m.log)
		if err != nil {
			return nil, err
		}
		at(m.opts.MetricsAddress).Handle("GET /metrics", page)
	}
	if m.opts.HealthAddress != "" {
		at(m.opts.HealthAddress).HandleFunc("GET /healthz", m.healthz)
		at(m.opts.HealthAddress).HandleFunc("GET /readyz", m.readyz)
	}
	s := &server{}
	for address, mux := range muxes {
		field, flag := "HealthAddress", "--health-probe-bind-address"
		if address == m.opts.MetricsAddress {
			field, flag = "MetricsAddress", "--metrics-bind-address"
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("runner: %s %s: %w; choose another (%s), or none", field, address, err, flag)
		}
		each := &http.Server{
			Handler: mux, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
		}
		s.servers = append(s.servers, each)
		s.wg.Go(func() {
			if err := each.Serve(listener); err != http.ErrServerClosed {
				m.log.Error("server failed", "address", address, "error", err)
			}
		})
	}
	return s, nil
}

// close returns when the last goroutine has ended.
func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, each := range s.servers {
		if each.Shutdown(ctx) != nil {
			_ = each.Close() // someone still reads; the listener is closed already
		}
	}
	s.wg.Wait()
}

// Healthy returns why the process should be restarted, nil if it shouldn't: the
// lease is lost, and yet the process hasn't ended, since a handler doesn't heed
// its context. Nothing else that goes wrong in an operator is mended by a restart.
func (m *Manager) Healthy() error {
	m.mu.Lock()
	lease := m.mu.lease
	m.mu.Unlock()
	if lease == nil {
		return nil
	}
	return lease.Lost()
}

func (m *Manager) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := m.Healthy(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// readyz says whether all that is watched is mirrored; with ?verbose, what is
// and what isn't.
func (m *Manager) readyz(w http.ResponseWriter, req *http.Request) {
	_, verbose := req.URL.Query()["verbose"]
	var lines strings.Builder
	failed := false
	for _, c := range m.checks() {
		switch {
		case c.err != nil:
			failed = true
			fmt.Fprintf(&lines, "[-]%s failed: %v\n", c.name, c.err)
		case verbose:
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		lines.WriteString("readyz check failed\n")
	case verbose:
		lines.WriteString("readyz check passed\n")
	default:
		lines.WriteString("ok")
	}
	_, _ = io.WriteString(w, lines.String())
}
