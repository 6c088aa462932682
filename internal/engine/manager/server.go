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

	"github.com/roperator/roperator/internal/engine/access"
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

// A server answers requests for metrics, health and readiness, and for the window.
type server struct {
	servers []*http.Server     // one per address
	page    WindowPage         // nil: there is no window
	wg      sync.WaitGroup     // of the goroutines that serve, one per address, and of those that keep certificates
	stop    context.CancelFunc // ends the latter
}

// A site is what is served at one address.
type site struct {
	http.Handler
	address     string
	field, flag string      // which say the address
	protection  *protection // nil: it is neither encrypted nor protected
	connections int         // at most
	window      bool        // which is told of in the log
}

// serve begins to listen at the addresses in the Options; there may be none. The
// server's close ends it. l must need no lease.
func (m *Manager) serve(ctx context.Context, l *client.Link) (*server, error) {
	secured, err := m.secure(l)
	if err != nil {
		return nil, err
	}
	sites, err := m.sites(secured)
	if err != nil {
		return nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	s := &server{stop: stop}
	if m.opts.WindowAddress != "" {
		window, err := m.windowSite(l, secured, s)
		if err != nil {
			s.close()
			return nil, err
		}
		sites = append(sites, window)
	}
	kept := map[*protection]bool{}
	for _, each := range sites {
		if p := each.protection; p != nil && !kept[p] {
			kept[p] = true
			s.wg.Go(func() { p.certificates.Keep(keeping) })
		}
		if err := s.begin(ctx, each, m.log); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// sites returns what is served but for the window. secured protects metrics; nil: nothing does.
func (m *Manager) sites(secured *protection) ([]site, error) {
	var out []site
	health := http.NewServeMux()
	if m.opts.MetricsAddress != "" {
		page, err := m.opts.Metrics.Handler(m.log)
		if err != nil {
			return nil, err
		}
		mux := http.NewServeMux()
		if m.opts.MetricsAddress == m.opts.HealthAddress {
			mux = health
		}
		mux.Handle("GET /metrics", page)
		mux.HandleFunc("GET "+explain.Path, m.explainPage)
		out = append(out, site{
			Handler: secured.around(mux), address: m.opts.MetricsAddress, field: "MetricsAddress", flag: "--metrics-bind-address", protection: secured, connections: maxConnections,
		})
	}
	if m.opts.HealthAddress != "" {
		health.HandleFunc("GET /healthz", m.healthz)
		health.HandleFunc("GET /readyz", m.readyz)
		if m.opts.HealthAddress != m.opts.MetricsAddress {
			out = append(out, site{Handler: health, address: m.opts.HealthAddress, field: "HealthAddress", flag: "--health-probe-bind-address", connections: maxConnections})
		}
	}
	return out, nil
}

// windowSite returns the window, whose page s closes. secured protects metrics; nil: nothing does.
func (m *Manager) windowSite(l *client.Link, secured *protection, s *server) (site, error) {
	out := site{
		address: access.Local(m.opts.WindowAddress), field: "WindowAddress", flag: "--window-bind-address", connections: maxWindowConnections, window: true,
	}
	w := m.newWindow(l)
	if !w.Loopback {
		if secured == nil {
			var err error
			if secured, err = m.protect(l, m.windowSecurity(), "the window"); err != nil {
				return out, err
			}
		}
		out.protection, w.Protect = secured, secured.guard.Protect
	}
	s.page = m.opts.NewWindow(w)
	out.Handler = s.page
	return out, nil
}

// begin begins to serve a site.
func (s *server) begin(ctx context.Context, at site, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.address)
	if err != nil {
		return fmt.Errorf("runner: %s %s: %w; choose another (%s), or none", at.field, at.address, err, at.flag)
	}
	each := &http.Server{
		Handler: at.Handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if at.window {
		log.InfoContext(ctx, "the window is open", "address", listener.Addr().String(), "protected", at.protection != nil)
	}
	serve := each.Serve
	if at.protection != nil {
		serve = at.protection.serving(each)
	}
	s.servers = append(s.servers, each)
	s.wg.Go(func() {
		if err := serve(&boundedListener{Listener: listener, limit: at.connections}); !errors.Is(err, http.ErrServerClosed) {
			log.Error("server failed", "address", at.address, "error", err)
		}
	})
	return nil
}

// close stops to listen, and returns when every goroutine of the server has
// ended.
func (s *server) close() {
	s.stop()
	if s.page != nil {
		s.page.Close() // streams would last
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, each := range s.servers {
		if each.Shutdown(ctx) != nil {
			_ = each.Close() // a client still reads; the listener is closed already
		}
	}
	s.wg.Wait()
}
