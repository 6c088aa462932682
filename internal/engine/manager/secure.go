package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/client"
)

// checkSecurity returns what is wrong with MetricsSecure.
func (o *Options) checkSecurity() error {
	if o.MetricsSecure == nil {
		return nil
	}
	if err := o.MetricsSecure.Validate(); err != nil {
		return fmt.Errorf("runner: Options: MetricsSecure: %w", err)
	}
	if o.MetricsAddress != "" && o.MetricsAddress == o.HealthAddress {
		return errors.New("runner: Options: MetricsSecure: MetricsAddress and HealthAddress are the same, and the kubelet's probes carry no token; serve health at another address (--health-probe-bind-address)")
	}
	return nil
}

// securesMetrics says whether metrics are served, and protected.
func (m *Manager) securesMetrics() bool {
	return m.opts.MetricsSecure != nil && m.opts.MetricsAddress != ""
}

// tellOpenMetrics logs that everybody may read the metrics, if that is so.
func (m *Manager) tellOpenMetrics(ctx context.Context) {
	if m.opts.MetricsAddress != "" && m.opts.MetricsSecure == nil {
		m.log.InfoContext(ctx, "metrics are open to everybody who can reach the address; --metrics-secure protects them", "address", m.opts.MetricsAddress)
	}
}

// A protection is what stands before the pages at an address.
type protection struct {
	certificates *access.Certificates
	guard        *access.Guard
	http2        bool
}

// secure returns the protection of metrics that the Options ask for, nil if they ask for none.
func (m *Manager) secure(l *client.Link) (*protection, error) {
	if !m.securesMetrics() {
		return nil, nil
	}
	return m.protect(l, m.opts.MetricsSecure, "metrics")
}

// windowSecurity returns how the window is protected where it isn't on a loopback address: as metrics are,
// if they are.
func (m *Manager) windowSecurity() *access.Security {
	if m.opts.MetricsSecure != nil {
		return m.opts.MetricsSecure
	}
	return &access.Security{}
}

// protect returns a protection of what is called so.
func (m *Manager) protect(l *client.Link, by *access.Security, what string) (*protection, error) {
	certificates, err := access.Open(by, m.log)
	if err != nil {
		return nil, fmt.Errorf("runner: MetricsSecure: %w", err)
	}
	guard, err := access.NewGuard(l.Config, l.As(m.operators[0].cfg.Name, nil), by, what, m.log)
	if err != nil {
		return nil, fmt.Errorf("runner: MetricsSecure: %w", err)
	}
	return &protection{certificates, guard, by.HTTP2}, nil
}

// around returns a handler that lets those requests through to next alone that are allowed. A nil protection lets
// all through.
func (p *protection) around(next http.Handler) http.Handler {
	if p == nil {
		return next
	}
	return p.guard.Protect(next)
}

// serving has a server speak TLS, and returns how it serves then.
func (p *protection) serving(s *http.Server) func(net.Listener) error {
	s.TLSConfig = p.certificates.Config()
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(p.http2)
	return func(l net.Listener) error { return s.ServeTLS(l, "", "") }
}
