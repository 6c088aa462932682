package conformance

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// A middleman stands between an operator and the API server.
type middleman struct {
	parents latch // before the events of the parents
	maps    latch // before the events of the ConfigMaps
	asks    latch // before the requests for the ConfigMaps' lists and watches

	// answer answers a request in the API server's place, unless it returns nil.
	answer atomic.Pointer[func(*http.Request) *http.Response]
	// listed is called when the first list of the parents has arrived, before anything
	// that follows it. It may be nil.
	listed func()
}

// config returns the way to the API server by the middleman.
func (m *middleman) config() *rest.Config {
	cfg := cluster.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if answer := m.answer.Load(); answer != nil {
				if resp := (*answer)(req); resp != nil {
					return resp, nil
				}
			}
			if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/configmaps") {
				m.asks.pass(req.Context())
			}
			resp, err := next.RoundTrip(req)
			if err != nil || req.URL.Query().Get("watch") == "" {
				return resp, err
			}
			ctx := req.Context()
			switch {
			case strings.HasSuffix(req.URL.Path, "/parents"):
				resp.Body = &watchBody{ReadCloser: resp.Body, pass: func() { m.parents.pass(ctx) }, listed: m.listed}
			case strings.HasSuffix(req.URL.Path, "/configmaps"):
				resp.Body = &watchBody{ReadCloser: resp.Body, pass: func() { m.maps.pass(ctx) }}
			}
			return resp, nil
		})
	})
	return cfg
}

// answers has requests answered in the API server's place from now on; nil: none.
func (m *middleman) answers(answer func(*http.Request) *http.Response) {
	if answer == nil {
		m.answer.Store(nil)
		return
	}
	m.answer.Store(&answer)
}

// A watchBody calls pass before it hands out what a watch delivers.
type watchBody struct {
	io.ReadCloser
	pass   func()
	listed func() // see middleman; nil once it was called
	end    []byte // of what was read, as long as the mark of a list's end
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.pass()
	if b.listed != nil {
		const mark = "k8s.io/initial-events-end"
		b.end = append(b.end, p[:n]...)
		if bytes.Contains(b.end, []byte(mark)) {
			b.listed()
			b.listed = nil
		}
		b.end = bytes.Clone(b.end[max(0, len(b.end)-len(mark)):])
	}
	return n, err
}

// respond returns an answer to a request.
func respond(req *http.Request, code int, contentType, body string) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}
