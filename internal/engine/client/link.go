package client

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/observe"
)

// A LeaseHolder says whether this process may write.
type LeaseHolder interface{ Held() bool }

// A Link is the way to the API server that all operators of a process share.
type Link struct {
	Config *rest.Config
	http   *http.Client
	lease  LeaseHolder // nil: no lease is needed to write
}

// Connect returns a link to the API server of a configuration, which it doesn't
// change. It makes no request. Without a rate limit in the configuration there
// is none: API priority and fairness rules.
func Connect(cfg *rest.Config) (*Link, error) {
	rc := rest.CopyConfig(cfg)
	if rc.RateLimiter == nil && rc.QPS == 0 { // else client-go's default of 5 requests a second holds
		rc.QPS = -1
	}
	if rc.RateLimiter == nil && rc.QPS > 0 { // one for all operators
		burst := rc.Burst
		if burst == 0 {
			burst = rest.DefaultBurst
		}
		rc.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(rc.QPS, burst)
	}
	httpClient, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Link{Config: rc, http: httpClient}, nil
}

// Under returns the same link, on which nothing is written without a lease.
func (l *Link) Under(lease LeaseHolder) *Link {
	return &Link{Config: l.Config, http: l.http, lease: lease}
}

// Leading says whether this process may write.
func (l *Link) Leading() bool { return l.lease == nil || l.lease.Held() }

// As returns an HTTP client whose requests say which operator they are of,
// unless the user has said what they shall say. Its writes need the lease. m
// counts its requests; nil: nothing does.
func (l *Link) As(operator string, m *observe.Metrics) *http.Client {
	out := *l.http
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = m.Meter(out.Transport)
	if l.lease != nil {
		out.Transport = &guard{next: out.Transport, lease: l.lease}
	}
	if l.Config.UserAgent == "" {
		out.Transport = transport.NewUserAgentRoundTripper(userAgent(operator), out.Transport)
	}
	return &out
}

func userAgent(operator string) string { return operator + "/roperator" }

// A guard lets no write through that would start without the lease.
type guard struct {
	next  http.RoundTripper
	lease LeaseHolder
}

// RoundTrip is called concurrently.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if !g.lease.Held() {
			if req.Body != nil {
				_ = req.Body.Close() // as a RoundTripper must
			}
			return nil, apierror.ErrNoLease
		}
	}
	return g.next.RoundTrip(req)
}

// WrappedRoundTripper is how client-go finds the connections below.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }
