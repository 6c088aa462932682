package client

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/testing/authority"
	"github.com/roperator/roperator/internal/testing/sample"
)

// A folder holds the credential files of a test.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) put(t *testing.T, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(f.path(name), content, 0o600))
}

// What a file held before stays in use while it can't be used.
func TestRenewer_Files(t *testing.T) {
	ca, clients := authority.New(t, "ca"), authority.New(t, "clients")
	cert, key := clients.Client(t)
	otherCert, otherKey := clients.Client(t)
	half := func(text []byte) []byte { return text[:len(text)/2] }
	for name, tc := range map[string]struct {
		reason string
		files  map[string][]byte // nil: there is no such file
		renews bool
	}{
		"Unchanged":           {"the request failed for another reason", map[string][]byte{"ca": ca.PEM}, false},
		"No authority":        {"it is being replaced", map[string][]byte{"ca": nil}, false},
		"Empty authority":     {"no API server would be trusted", map[string][]byte{"ca": {}}, false},
		"Half an authority":   {"it is being written", map[string][]byte{"ca": half(ca.PEM)}, false},
		"Other authority":     {"it was replaced", map[string][]byte{"ca": authority.New(t, "other").PEM}, true},
		"One and a half":      {"the whole one counts, until the next request fails", map[string][]byte{"ca": append(append([]byte{}, ca.PEM...), half(ca.PEM)...)}, true},
		"No certificate":      {"it is being replaced", map[string][]byte{"cert": nil}, false},
		"Empty certificate":   {"the API server wouldn't know the client", map[string][]byte{"cert": {}}, false},
		"Half a certificate":  {"it is being written", map[string][]byte{"cert": half(cert)}, false},
		"No key":              {"it is being replaced", map[string][]byte{"key": nil}, false},
		"Key of another pair": {"the certificate is still to be replaced", map[string][]byte{"key": otherKey}, false},
		"Another pair":        {"both were replaced", map[string][]byte{"cert": otherCert, "key": otherKey}, true},
		"No token":            {"it is being replaced", map[string][]byte{"token": nil}, false},
		"Empty token":         {"the API server wouldn't know the client", map[string][]byte{"token": []byte(" \n")}, false},
		"Other token":         {"it was replaced", map[string][]byte{"token": []byte("other")}, true},
		"One of two":          {"those that can be used wait for the other", map[string][]byte{"token": []byte("other"), "ca": {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t.TempDir())
			dir.put(t, "ca", ca.PEM)
			dir.put(t, "cert", cert)
			dir.put(t, "key", key)
			dir.put(t, "token", []byte("token\n"))
			var log strings.Builder
			made, err := newRenewer(&rest.Config{
				BearerTokenFile: dir.path("token"),
				TLSClientConfig: rest.TLSClientConfig{CAFile: dir.path("ca"), CertFile: dir.path("cert"), KeyFile: dir.path("key")},
			}, slog.New(slog.NewTextHandler(&log, nil)))
			require.NoError(t, err)
			r, ok := made.(*renewer)
			require.True(t, ok)
			before := r.renewed()
			for file, content := range tc.files {
				if content == nil {
					require.NoError(t, os.Remove(dir.path(file)))
				} else {
					dir.put(t, file, content)
				}
			}
			require.Same(t, before, r.renewed(), "no request has failed")
			for range 2 {
				r.mu.doubted = true
				require.Equal(t, tc.renews, before != r.renewed(), tc.reason)
			}
			if name != "Unchanged" {
				require.Equal(t, 1, strings.Count(log.String(), "\n"), "said once")
				require.Equal(t, !tc.renews, strings.Contains(log.String(), string(dir)), "and which file can't be used")
			}
		})
	}
}

// A configuration that can't work is refused at once.
func TestConnect_RefusesFiles(t *testing.T) {
	dir := folder(t.TempDir())
	dir.put(t, "empty", nil)
	dir.put(t, "token", []byte("token"))
	dir.put(t, "ca", authority.New(t, "ca").PEM)
	missing, empty := dir.path("missing"), dir.path("empty")
	for name, tc := range map[string]struct {
		cfg  rest.Config
		want string // empty: it is accepted
	}{
		"No authority":      {rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: missing}}, missing},
		"Empty authority":   {rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: empty}}, empty},
		"No certificate":    {rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: missing, KeyFile: missing}}, missing},
		"No token":          {rest.Config{BearerTokenFile: missing}, missing},
		"Token beside it":   {rest.Config{BearerTokenFile: missing, BearerToken: "token"}, ""},
		"Password and file": {rest.Config{BearerTokenFile: dir.path("token"), BearerToken: "token", Username: "u", Password: "p"}, "but not both"},
		"Insecure":          {rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: dir.path("ca"), Insecure: true}}, "insecure"},
		"Own transport": {
			rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: dir.path("ca")}, BearerTokenFile: dir.path("token"), Transport: http.DefaultTransport}, "custom transport",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(&tc.cfg, sample.DiscardLog())
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A tokenServer accepts one token, and no request while it is down.
type tokenServer struct {
	accepts string
	down    bool
}

func (s *tokenServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.down {
		return nil, errors.New("connection refused")
	}
	status := http.StatusOK
	if req.Header.Get("Authorization") != "Bearer "+s.accepts {
		status = http.StatusUnauthorized
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
}

func TestRenewer_Token(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := folder(t.TempDir())
		dir.put(t, "token", []byte("one\n"))
		server := &tokenServer{accepts: "one"}
		link, err := Connect(&rest.Config{Host: "https://api", BearerToken: "zero", BearerTokenFile: dir.path("token"), Transport: server}, sample.DiscardLog())
		require.NoError(t, err)
		c := link.As("op", nil)
		get := func() int {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/", nil)
			require.NoError(t, err)
			resp, err := c.Do(req)
			if err != nil {
				return 0
			}
			require.NoError(t, resp.Body.Close())
			require.Empty(t, req.Header, "the caller's request stays as it is")
			return resp.StatusCode
		}
		require.Equal(t, 200, get(), "the file's token goes before the one beside it")

		dir.put(t, "token", []byte("two"))
		require.Equal(t, 200, get(), "the file was just read")
		<-time.After(time.Minute)
		require.Equal(t, 401, get(), "client-go reads it again, although nothing has failed")
		server.accepts = "two"
		require.Equal(t, 200, get())

		server.accepts = "three"
		require.Equal(t, 401, get(), "nobody has replaced the file yet")
		dir.put(t, "token", []byte("thr"))
		require.Equal(t, 401, get(), "half written")
		dir.put(t, "token", []byte("three"))
		require.Equal(t, 200, get(), "read again after a refusal")

		require.NoError(t, os.Remove(dir.path("token")))
		<-time.After(time.Minute)
		require.Equal(t, 200, get(), "the old one stays in use")
		server.down = true
		require.Zero(t, get())
		server.down, server.accepts = false, "four"
		dir.put(t, "token", []byte("four"))
		require.Equal(t, 200, get(), "read again after a failure")
	})
}

// serve runs an API server with a certificate of an authority. It answers 401 unless
// the client has a certificate of the authority that clients names; "" accepts all.
func serve(t *testing.T, ca *authority.Authority, clients *atomic.Value) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		want := clients.Load().(string)
		if certs := req.TLS.PeerCertificates; want != "" && (len(certs) == 0 || certs[0].Issuer.CommonName != want) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	cert, key := ca.Server(t)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// client-go alone would use the old certificate for five minutes, and the old authority as long.
func TestRenewer_Certificates(t *testing.T) {
	dir, clients := folder(t.TempDir()), &atomic.Value{}
	clients.Store("clients 1")
	first, second := authority.New(t, "serving 1"), authority.New(t, "serving 2")
	putClient := func(by string) {
		cert, key := authority.New(t, by).Client(t)
		dir.put(t, "cert", cert)
		dir.put(t, "key", key)
	}
	dir.put(t, "ca", first.PEM)
	putClient("clients 1")
	server := serve(t, first, clients)
	var dials atomic.Int64
	var log strings.Builder
	link, err := Connect(&rest.Config{
		Host:            "https://127.0.0.1",
		TLSClientConfig: rest.TLSClientConfig{CAFile: dir.path("ca"), CertFile: dir.path("cert"), KeyFile: dir.path("key")},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	c := link.As("op", nil)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(c.Transport) })
	get := func() (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1/", nil)
		require.NoError(t, err)
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		require.Equal(t, 2, resp.ProtoMajor, "HTTP/2")
		return resp.StatusCode, resp.Body.Close()
	}
	served := func(reason string) {
		t.Helper()
		status, err := get()
		require.NoError(t, err, reason)
		require.Equal(t, 200, status, reason)
	}
	served("with the first certificates")
	served("on the same connection")
	require.EqualValues(t, 1, dials.Load())

	clients.Store("clients 2")
	putClient("clients 2")
	status, err := get()
	require.NoError(t, err)
	require.Equal(t, 401, status, "the connection has the old certificate")
	served("on a new connection")
	require.EqualValues(t, 2, dials.Load())

	server.Close()
	server = serve(t, second, clients)
	_, err = get()
	require.Error(t, err, "the API server isn't trusted")
	_, err = get()
	require.ErrorContains(t, err, "x509: ", "the file has the old authority")
	dir.put(t, "ca", nil)
	_, err = get()
	require.ErrorContains(t, err, "x509: ", "an empty file changes nothing")
	dir.put(t, "ca", second.PEM)
	served("the new one is in the file")
	require.Contains(t, log.String(), "can't be used")
	require.Equal(t, 2, strings.Count(log.String(), "credentials were replaced"))
}

// No request goes to where an aggregated API server, say, redirects to: it would carry the
// operator's credentials.
func TestConnect_Redirects(t *testing.T) {
	dir := folder(t.TempDir())
	dir.put(t, "token", []byte("token"))
	for name, cfg := range map[string]rest.Config{
		"None":        {},
		"Token":       {BearerToken: "token"},
		"Token file":  {BearerTokenFile: dir.path("token")},
		"Password":    {Username: "user", Password: "hush"},
		"Own default": {Transport: http.DefaultTransport},
	} {
		t.Run(name, func(t *testing.T) {
			var others atomic.Int32
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
			defer other.Close()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, other.URL+"/api/v1/pods", http.StatusTemporaryRedirect)
			}))
			defer server.Close()
			cfg.Host = server.URL
			link, err := Connect(&cfg, sample.DiscardLog())
			require.NoError(t, err)
			client := link.As("sites", nil)
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/pods", strings.NewReader("{}"))
				require.NoError(t, err)
				resp, err := client.Do(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				require.ErrorContains(t, err, `redirect (307) to "http://127.0.0.1:`)
			}
			require.Zero(t, others.Load())
		})
	}
	require.Nil(t, http.DefaultClient.Transport, "other clients of the process are left alone")
}
