package observe

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roperator/roperator/internal/apirequest"
)

// apiMetrics count the requests to the API server where they leave the process.
// client-go has hooks for that, but they are global to the process.
type apiMetrics struct {
	requests *prometheus.CounterVec   // by verb and code
	duration *prometheus.HistogramVec // by verb
}

func newAPIMetrics() *apiMetrics {
	return &apiMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roperator_api_requests_total",
			Help: "Requests to the API server, by verb (get, which a list is too, watch, create, update, patch, apply, delete) and HTTP status code; error: no answer; other: a code that HTTP doesn't define.",
		}, []string{"verb", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "roperator_api_request_duration_seconds", Buckets: slowBuckets(),
			Help: "Time until the API server began to answer a request, in seconds, by verb.",
		}, []string{"verb"}),
	}
}

// Meter returns a transport that counts requests and passes them to next. It returns
// next itself if m is nil.
func (m *Metrics) Meter(next http.RoundTripper) http.RoundTripper {
	if m == nil {
		return next
	}
	return &meter{next: next, metrics: m.api}
}

// A meter counts requests and their durations, without the time for which a rate
// limiter holds them back.
type meter struct {
	next    http.RoundTripper
	metrics *apiMetrics
}

// RoundTrip sends a request and counts it. It may be called concurrently.
func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	verb := apiVerb(req)
	start := time.Now()
	answer, err := m.next.RoundTrip(req)
	m.metrics.duration.WithLabelValues(verb).Observe(time.Since(start).Seconds())
	m.metrics.requests.WithLabelValues(verb, codeOf(answer, err)).Inc()
	return answer, err
}

// codeOf returns the status code of an answer as metrics show it. A webhook chooses the
// code of its refusal, and may put a number there that it has read in a Secret: codes
// that HTTP doesn't define are "other".
func codeOf(answer *http.Response, err error) string {
	switch {
	case err != nil:
		return "error"
	case http.StatusText(answer.StatusCode) == "":
		return "other"
	}
	return strconv.Itoa(answer.StatusCode)
}

// WrappedRoundTripper returns the transport below, in which client-go looks for the
// connections.
func (m *meter) WrappedRoundTripper() http.RoundTripper { return m.next }

// apiVerb returns the verb under which a request is counted. A list counts as a get,
// and the deletion of a collection as a delete.
func apiVerb(req *http.Request) string {
	switch verb := apirequest.Parse(req).Verb; verb {
	case "list":
		return "get"
	case "deletecollection":
		return "delete"
	default:
		return verb
	}
}
