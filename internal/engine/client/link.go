package client

import (
	"fmt"
	"log/slog"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/revision"
)

// A LeaseHolder knows whether this process holds the lease, and so may write. Held
// is called concurrently.
type LeaseHolder interface{ Held() bool }

// A Link is the connection to the API server that all operators of a process
// share. It is immutable and may be used concurrently.
type Link struct {
	Config *rest.Config // not to be changed: copy it
	http   *http.Client
	lease  LeaseHolder // nil: writes need no lease
	dryRun bool        // writes are dry runs, or fail
	// Storage learns of the resourceVersions that the API server tells, and finds out that etcd was
	// restored. It is set before the link is used. Nil: nothing is found out.
	Storage *revision.Storage
}

// Connect returns a link to the API server of a configuration. It makes no request,
// and doesn't change cfg. If cfg sets no rate limit, there is none: the API server's
// priority and fairness limits the requests. Certificates and tokens in files that cfg
// names may be replaced at any time: the link follows them, and logs that to log.
func Connect(cfg *rest.Config, log *slog.Logger) (*Link, error) {
	rc := rest.CopyConfig(cfg)
	if rc.RateLimiter == nil && rc.QPS == 0 { // else client-go would limit requests to 5 a second
		rc.QPS = -1
	}
	if rc.RateLimiter == nil && rc.QPS > 0 { // one limit for all operators
		burst := rc.Burst
		if burst == 0 {
			burst = rest.DefaultBurst
		}
		rc.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(rc.QPS, burst)
	}
	httpClient, err := httpClientFor(rc, log)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Link{Config: rc, http: httpClient}, nil
}

// Under returns a link on the same connection, whose writes fail with
// apierror.ErrNoLease while the lease isn't held.
func (l *Link) Under(lease LeaseHolder) *Link {
	return &Link{Config: l.Config, http: l.http, lease: lease, Storage: l.Storage}
}

// Rehearsing returns a link on the same connection through which nothing is written: only reads and
// dry runs pass, and every other request fails with apierror.ErrNoLease.
func (l *Link) Rehearsing() *Link {
	return &Link{Config: l.Config, http: l.http, lease: neverHeld{}, dryRun: true, Storage: l.Storage}
}

// A neverHeld is a lease that nobody holds.
type neverHeld struct{}

func (neverHeld) Held() bool { return false }

// Leading says whether this process may write: the lease is held, or none is
// needed.
func (l *Link) Leading() bool { return l.lease == nil || l.lease.Held() }

// As returns an HTTP client for the requests of an operator. Its writes need the
// lease, if the link has one. The User-Agent of its requests names the operator,
// unless Config sets another. m counts the requests; a nil m counts none.
func (l *Link) As(operator string, m *observe.Metrics) *http.Client {
	out := *l.http
	out.Transport = m.Meter(out.Transport)
	if l.lease != nil {
		out.Transport = &guard{next: out.Transport, lease: l.lease, dryRuns: l.dryRun}
	}
	if l.Config.UserAgent == "" {
		out.Transport = transport.NewUserAgentRoundTripper(userAgent(operator), out.Transport)
	}
	return &out
}

func userAgent(operator string) string { return operator + "/roperator" }

// A guard refuses every write that would start without the lease.
type guard struct {
	next    http.RoundTripper
	lease   LeaseHolder
	dryRuns bool // whether dry runs need no lease
}

// RoundTrip sends a request, or returns apierror.ErrNoLease. It may be called
// concurrently.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if !g.lease.Held() && (!g.dryRuns || !isDryRun(req)) {
			if req.Body != nil {
				_ = req.Body.Close() // as a RoundTripper must
			}
			return nil, apierror.ErrNoLease
		}
	}
	return g.next.RoundTrip(req)
}

// isDryRun says whether the API server persists nothing of a request.
func isDryRun(req *http.Request) bool {
	values := req.URL.Query()["dryRun"]
	return len(values) == 1 && values[0] == metav1.DryRunAll
}

// WrappedRoundTripper returns the transport below, in which client-go looks for the
// connections.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }
