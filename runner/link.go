package runner

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"
)

// A link is the way to the API server that all operators of a process share.
type link struct {
	config *rest.Config
	http   *http.Client
	lease  *lease // without which nothing is written; nil: there is none
}

// connect makes no request yet.
func (r *Runner) connect() (*link, error) {
	rc := rest.CopyConfig(r.opts.RESTConfig)
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
	return &link{config: rc, http: httpClient}, nil
}

// as returns a client whose requests say which operator they are of, unless
// the user has said what they shall say, whose writes need the lease, and that
// counted (nil: nothing) counts.
func (l *link) as(operator string, counted *apiMetrics) *http.Client {
	out := *l.http
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	if counted != nil {
		out.Transport = &meter{next: out.Transport, metrics: counted}
	}
	if l.lease != nil {
		out.Transport = &guard{next: out.Transport, lease: l.lease}
	}
	if l.config.UserAgent == "" {
		out.Transport = transport.NewUserAgentRoundTripper(userAgent(operator), out.Transport)
	}
	return &out
}

func userAgent(operator string) string { return operator + "/roperator" }

// leading says whether this process may write.
func (l *link) leading() bool { return l.lease == nil || l.lease.held() }

// errNoLease is what a write gets that comes too late.
var errNoLease = errors.New("the lease wasn't renewed in time, so nothing is written any more")

// A guard lets no write through that would start without the lease.
type guard struct {
	next  http.RoundTripper
	lease *lease
}

// RoundTrip is called concurrently.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if !g.lease.held() {
			if req.Body != nil {
				_ = req.Body.Close() // as a RoundTripper must
			}
			return nil, errNoLease
		}
	}
	return g.next.RoundTrip(req)
}

// WrappedRoundTripper is how client-go finds the connections below.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }
