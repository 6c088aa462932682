package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/explain"
)

const (
	// These bound what a slow client can hold.
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	// closeTimeout is how long requests that are being answered may take once
	// everything else has ended.
	closeTimeout = time.Second
)

// A server answers requests for metrics, health and readiness.
type server struct {
	servers []*http.Server     // one per address
	wg      sync.WaitGroup     // of the goroutines that serve, one per address, and of the one that keeps the certificate
	stop    context.CancelFunc // ends the latter
}

// serve begins to listen at the addresses in the Options; there may be none. The
// server's close ends it. l must need no lease.
func (m *Manager) serve(ctx context.Context, l *client.Link) (*server, error) {
	secured, err := m.secure(l)
	if err != nil {
		return nil, err
	}
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
		at(m.opts.MetricsAddress).HandleFunc("GET "+explain.Path, m.explainPage)
	}
	if m.opts.HealthAddress != "" {
		at(m.opts.HealthAddress).HandleFunc("GET /healthz", m.healthz)
		at(m.opts.HealthAddress).HandleFunc("GET /readyz", m.readyz)
	}
	keeping, stop := context.WithCancel(ctx)
	s := &server{stop: stop}
	if secured != nil {
		s.wg.Go(func() { secured.certificates.Keep(keeping) })
	}
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
		serve := each.Serve
		if secured != nil && address == m.opts.MetricsAddress {
			serve = secured.serving(each)
		}
		s.servers = append(s.servers, each)
		s.wg.Go(func() {
			if err := serve(&boundedListener{Listener: listener, limit: maxConnections}); !errors.Is(err, http.ErrServerClosed) {
				m.log.Error("server failed", "address", address, "error", err)
			}
		})
	}
	return s, nil
}

// close stops to listen, and returns when every goroutine of the server has
// ended.
func (s *server) close() {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, each := range s.servers {
		if each.Shutdown(ctx) != nil {
			_ = each.Close() // a client still reads; the listener is closed already
		}
	}
	s.wg.Wait()
}
