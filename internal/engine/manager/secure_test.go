package manager_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// allowing answers every TokenReview and SubjectAccessReview with yes.
type allowing struct{ next http.RoundTripper }

func (a allowing) RoundTrip(req *http.Request) (*http.Response, error) {
	yes := map[string]string{
		"/apis/authentication.k8s.io/v1/tokenreviews":        `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"u"}}}`,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews": `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`,
	}
	if text, ok := yes[req.URL.Path]; ok {
		return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	return a.next.RoundTrip(req)
}

// serving runs an operator with these options until the test ends, and returns the
// addresses of its metrics and its health, and what it logs.
func serving(t *testing.T, secure *access.Security) (metrics, health string, logs *rig.Logs) {
	t.Helper()
	rc := rig.Server().RESTConfig()
	rc.Transport = allowing{rc.Transport}
	metrics, health, logs = plane.FreeAddress(t), plane.FreeAddress(t), &rig.Logs{}
	m, err := manager.New(manager.Options{RESTConfig: rc, Logger: slog.New(slog.NewTextHandler(logs, nil)), MetricsAddress: metrics, HealthAddress: health, MetricsSecure: secure},
		manager.Spec{Config: rig.Config(), Handler: handler.SyncFunc(rig.Copier)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }() // until cancel
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool { return m.Ready() == nil && strings.Contains(logs.String(), "msg=started") }, time.Minute, 10*time.Millisecond)
	return metrics, health, logs
}

// fetch returns the answer's code, protocol and body.
func fetch(t *testing.T, url, token string) (code int, protocol, body string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Proto, string(text)
}

func TestMetricsSecure(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		security access.Security
		protocol string
	}{
		"Default": {"HTTP/2 has had its floods", access.Security{}, "HTTP/1.1"},
		"HTTP/2":  {"who asks for it gets it", access.Security{HTTP2: true}, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics, health, logs := serving(t, &tc.security)
			code, protocol, body := fetch(t, "https://"+metrics+"/metrics", "t")
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, tc.protocol, protocol, tc.reason)
			require.Contains(t, body, "roperator_syncs_total")
			for _, path := range []string{"/metrics", "/", "/debug/roperator/explain", "/nowhere"} {
				code, _, _ = fetch(t, "https://"+metrics+path, "")
				require.Equal(t, http.StatusUnauthorized, code, path)
			}
			code, _, _ = fetch(t, "http://"+metrics+"/metrics", "t")
			require.Equal(t, http.StatusBadRequest, code, "without TLS there is nothing")
			code, _, _ = fetch(t, "http://"+health+"/readyz", "")
			require.Equal(t, http.StatusOK, code, "probes carry no token")
			require.NotContains(t, logs.String(), "metrics are open")
		})
	}
}

// Who doesn't protect metrics is told.
func TestMetricsSecure_Off(t *testing.T) {
	t.Parallel()
	metrics, _, logs := serving(t, nil)
	code, _, _ := fetch(t, "http://"+metrics+"/metrics", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, 1, strings.Count(logs.String(), `level=INFO msg="metrics are open to everybody who can reach the address; --metrics-secure protects them" address=`+metrics))
}

func TestMetricsSecure_BadOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		opts   manager.Options
		want   string
	}{
		"Same address": {"probes carry no token", manager.Options{MetricsAddress: ":1", HealthAddress: ":1", MetricsSecure: &access.Security{}}, "MetricsAddress and HealthAddress are the same"},
		"Bad security": {"as Validate says", manager.Options{MetricsSecure: &access.Security{KeyName: "k"}}, "MetricsSecure: CertName and KeyName"},
		"No files":     {"a pair that isn't there", manager.Options{MetricsAddress: "127.0.0.1:0", MetricsSecure: &access.Security{CertDir: t.TempDir()}}, "tls.crt: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opts.RESTConfig, tc.opts.Logger = rig.Server().RESTConfig(), sample.DiscardLog()
			require.ErrorContains(t, rig.RunOne(t.Context(), rig.Config(), handler.SyncFunc(rig.Copier), tc.opts), tc.want, tc.reason)
		})
	}
}
