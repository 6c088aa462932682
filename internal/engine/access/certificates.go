package access

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"time"
)

// rereadAfter is the time between two looks at the files of a certificate.
const rereadAfter = 10 * time.Second

// Certificates hold the certificate that a server shows. It is replaced while the server
// runs. Methods may be called concurrently, Keep by one goroutine only.
type Certificates struct {
	source source
	http2  bool
	log    *slog.Logger

	current atomic.Pointer[tls.Certificate] // never nil

	// Of Keep alone: what was said last, so that it is said once.
	failure string           // why the source has no usable certificate; empty: it has
	expired *tls.Certificate // of whose end the log has told; nil: of none
}

// A source makes certificates.
type source interface {
	// next returns the certificate to be shown from now on: current unless there is a
	// better one. current is nil at first, and then next must return one or an error.
	// Beside an error it returns current.
	next(current *tls.Certificate) (*tls.Certificate, error)
	// name says for the log where certificates come from.
	name() string
}

// Open returns the certificates of a server: those in the files that security names, or
// self-signed ones. The error names the file that can't be used. security must be valid.
func Open(security *Security, log *slog.Logger) (*Certificates, error) {
	var from source = selfSigned{}
	if cert, key := security.files(); cert != "" {
		from = &pairFiles{cert: cert, key: key}
	}
	c := &Certificates{source: from, http2: security.HTTP2, log: log}
	first, err := from.next(nil)
	if err != nil {
		return nil, err
	}
	c.current.Store(first)
	c.tellExpiry()
	return c, nil
}

// Config returns the TLS settings of a server that shows the current certificate.
func (c *Certificates) Config() *tls.Config {
	protocols := []string{"http/1.1"}
	if c.http2 {
		protocols = []string{"h2", "http/1.1"}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Keep replaces the certificate when there is another one, until ctx ends.
func (c *Certificates) Keep(ctx context.Context) {
	ticks := time.NewTicker(rereadAfter)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			c.look()
		}
	}
}

// look replaces the certificate if there is another one, and tells of one that can't be
// used and of one that has expired, each once.
func (c *Certificates) look() {
	before := c.current.Load()
	next, err := c.source.next(before)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != c.failure {
		c.log.Warn("a new certificate can't be used, the one before stays in use", "error", text)
	}
	c.failure = text
	if next != before {
		c.current.Store(next)
		c.log.Info("the certificate was replaced, new connections get it", "from", c.source.name(), "notAfter", next.Leaf.NotAfter)
	}
	c.tellExpiry()
}

// tellExpiry warns if clients must refuse the current certificate for its dates.
func (c *Certificates) tellExpiry() {
	current := c.current.Load()
	err := inForce(current)
	if err != nil && current != c.expired {
		c.expired = current
		c.log.Warn("clients that verify the certificate refuse it; replace it", "from", c.source.name(), "error", err)
	}
}
