package runner

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

	"github.com/prometheus/client_golang/prometheus/promhttp"
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
func (r *Runner) serve(ctx context.Context) (*server, error) {
	muxes := map[string]*http.ServeMux{}
	at := func(address string) *http.ServeMux {
		if muxes[address] == nil {
			muxes[address] = http.NewServeMux()
		}
		return muxes[address]
	}
	if r.opts.MetricsAddress != "" {
		errorLog := slog.NewLogLogger(r.log.Handler(), slog.LevelWarn)
		at(r.opts.MetricsAddress).Handle("GET /metrics", promhttp.HandlerFor(r.gatherer, promhttp.HandlerOpts{ErrorLog: errorLog}))
	}
	if r.opts.HealthAddress != "" {
		at(r.opts.HealthAddress).HandleFunc("GET /healthz", r.healthz)
		at(r.opts.HealthAddress).HandleFunc("GET /readyz", r.readyz)
	}
	s := &server{}
	for address, mux := range muxes {
		field, flag := "HealthAddress", "--health-probe-bind-address"
		if address == r.opts.MetricsAddress {
			field, flag = "MetricsAddress", "--metrics-bind-address"
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("runner: %s %s: %w; choose another (%s), or none", field, address, err, flag)
		}
		each := &http.Server{
			Handler: mux, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		}
		s.servers = append(s.servers, each)
		s.wg.Go(func() {
			if err := each.Serve(listener); err != http.ErrServerClosed {
				r.log.Error("server failed", "address", address, "error", err)
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

// healthz fails if the process should be restarted: the lease is lost, and yet
// it hasn't ended, since a handler doesn't heed its context. Nothing else that
// goes wrong in an operator is mended by a restart.
func (r *Runner) healthz(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	lease := r.mu.lease
	r.mu.Unlock()
	if lease != nil {
		if err := lease.lost(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	_, _ = io.WriteString(w, "ok")
}

// readyz says whether all that is watched is mirrored; with ?verbose, what is
// and what isn't.
func (r *Runner) readyz(w http.ResponseWriter, req *http.Request) {
	_, verbose := req.URL.Query()["verbose"]
	var lines strings.Builder
	failed := false
	for _, c := range r.checks() {
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
