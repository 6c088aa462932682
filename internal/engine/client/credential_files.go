package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/internal/redirect"
)

// rereadAfter is how old what was read from the credential files may be when a
// request is sent. client-go itself reads a certificate authority again after five
// minutes, and a token after 50 seconds.
const rereadAfter = 10 * time.Second

// maxIdle is how many idle connections are kept, as client-go does it.
const maxIdle = 25

// credentials are what the files of a configuration hold. A field is empty if the
// configuration names no file for it, or gives the content beside the file.
type credentials struct {
	ca        string // PEM: whom to trust as the API server
	cert, key string // PEM: the client certificate
	token     string
}

// credentialFiles are the files of a configuration whose content may be replaced
// while the process runs. They are an http.RoundTripper over connections that are
// made with what the files hold.
//
// The files are read again before a request if they were read some time ago, or if the
// last request failed or wasn't authenticated. A file that can't be used changes
// nothing: what it held before stays in use. After a change of the certificates,
// requests use new connections, and running watches end on the old ones. Methods may be
// called concurrently.
type credentialFiles struct {
	config          *transport.Config // names the files; not to be changed
	ca, cert, token bool              // which of the files are followed
	log             *slog.Logger

	mu struct {
		sync.Mutex
		read        time.Time // when the files were read last; zero: the next request reads them
		credentials credentials
		connections *http.Transport // made with credentials; nil if no certificate is followed
		failure     string          // why a file can't be used; empty: all can
	}
}

// httpClientFor returns a client as rest.HTTPClientFor does, except that it reads the
// credential files again and follows no redirect. It returns an error if a file can't be
// used.
func httpClientFor(rc *rest.Config, log *slog.Logger) (*http.Client, error) {
	made, err := credentialedClient(rc, log)
	if err != nil {
		return nil, err
	}
	own := *made // it may be http.DefaultClient
	own.Transport = redirect.Refuse(own.Transport)
	return &own, nil
}

// credentialedClient returns a client that reads the credential files again.
func credentialedClient(rc *rest.Config, log *slog.Logger) (*http.Client, error) {
	f := &credentialFiles{
		ca:    rc.CAFile != "" && len(rc.CAData) == 0,
		cert:  rc.CertFile != "" && len(rc.CertData) == 0 && rc.KeyFile != "" && len(rc.KeyData) == 0,
		token: rc.BearerTokenFile != "" && rc.Username == "" && rc.Password == "", // client-go refuses both
		log:   log,
	}
	if !f.ca && !f.cert && !f.token {
		return rest.HTTPClientFor(rc)
	}
	var err error
	if f.config, err = rc.TransportConfig(); err != nil {
		return nil, err
	}
	if f.config.Transport != nil { // client-go refuses certificates beside it
		f.ca, f.cert = false, false
	}
	if err := f.begin(); err != nil {
		return nil, err
	}
	outer := *f.config
	outer.Wrap(func(next http.RoundTripper) http.RoundTripper { return &authenticator{next: next, files: f} })
	if f.token {
		outer.BearerToken, outer.BearerTokenFile = "", ""
	}
	made := &http.Client{Timeout: rc.Timeout}
	if f.ca || f.cert {
		made.Transport, err = transport.HTTPWrappersForConfig(&outer, f)
	} else {
		made.Transport, err = transport.New(&outer)
	}
	return made, err
}

// begin reads the files for the first time. It returns an error if what a file should
// hold isn't known.
func (f *credentialFiles) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token {
		f.mu.credentials.token = strings.TrimSpace(f.config.BearerToken) // until the file can be read
	}
	next, err := f.contents(f.mu.credentials)
	if f.ca && next.ca == "" || f.cert && next.cert == "" || f.token && next.token == "" {
		return err
	}
	f.mu.credentials, f.mu.read = next, time.Now()
	if f.ca || f.cert {
		f.mu.connections, err = f.connect(next)
		return err
	}
	return nil
}

// contents returns what the files hold, and for those that can't be used what they
// held before. The error says which ones can't be used.
func (f *credentialFiles) contents(before credentials) (credentials, error) {
	now, errs := before, make([]error, 0, 3)
	if f.ca {
		ca, err := readCA(f.config.TLS.CAFile)
		if err == nil {
			now.ca = ca
		}
		errs = append(errs, err)
	}
	if f.cert {
		cert, key, err := readPair(f.config.TLS.CertFile, f.config.TLS.KeyFile)
		if err == nil {
			now.cert, now.key = cert, key
		}
		errs = append(errs, err)
	}
	if f.token {
		token, err := readToken(f.config.BearerTokenFile)
		if err == nil {
			now.token = token
		}
		errs = append(errs, err)
	}
	return now, errors.Join(errs...)
}

// readCA returns the certificates of a file. A file with half a certificate can't be
// used: it is being written.
func readCA(path string) (string, error) {
	text, err := process.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("certificate authority: %w", err)
	}
	whole := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")) == bytes.Count(text, []byte("-----END CERTIFICATE-----"))
	if !whole || !x509.NewCertPool().AppendCertsFromPEM(text) {
		return "", fmt.Errorf("certificate authority %s: no certificate, or only a part of one", path)
	}
	return string(text), nil
}

// readPair returns a client certificate and its key. Files that don't belong together
// can't be used: one of them is still to be replaced.
func readPair(certFile, keyFile string) (cert, key string, err error) {
	certText, err := process.ReadFile(certFile)
	if err != nil {
		return "", "", fmt.Errorf("client certificate: %w", err)
	}
	keyText, err := process.ReadFile(keyFile)
	if err != nil {
		return "", "", fmt.Errorf("client key: %w", err)
	}
	if _, err := tls.X509KeyPair(certText, keyText); err != nil {
		return "", "", fmt.Errorf("client certificate %s: %w", certFile, err)
	}
	return string(certText), string(keyText), nil
}

// readToken returns the token of a file.
func readToken(path string) (string, error) {
	text, err := process.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token %s: the file is empty", path)
	}
	return token, nil
}

// connect returns a transport without connections, which makes them with c.
func (f *credentialFiles) connect(c credentials) (*http.Transport, error) {
	own := transport.Config{TLS: f.config.TLS}
	if f.ca {
		own.TLS.CAFile, own.TLS.CAData = "", []byte(c.ca)
	}
	if f.cert {
		own.TLS.CertFile, own.TLS.KeyFile, own.TLS.CertData, own.TLS.KeyData = "", "", []byte(c.cert), []byte(c.key)
	}
	tlsConfig, err := transport.TLSConfigFor(&own)
	if err != nil {
		return nil, err
	}
	made := &http.Transport{
		Proxy: f.config.Proxy, TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: maxIdle, DisableCompression: f.config.DisableCompression,
	}
	if f.config.DialHolder != nil {
		made.DialContext = f.config.DialHolder.Dial
	}
	return utilnet.SetTransportDefaults(made), nil
}

// current returns the token and the connections that a request should use now. It
// reads the files if that is due.
func (f *credentialFiles) current() (token string, connections *http.Transport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.read.IsZero() || time.Since(f.mu.read) >= rereadAfter {
		f.readLocked()
	}
	return f.mu.credentials.token, f.mu.connections
}

// readLocked reads the files, and makes what they hold current.
func (f *credentialFiles) readLocked() {
	f.mu.read = time.Now()
	next, err := f.contents(f.mu.credentials)
	f.noteLocked(err)
	before := f.mu.credentials
	if next == before {
		return
	}
	if next.ca != before.ca || next.cert != before.cert || next.key != before.key {
		connections, err := f.connect(next)
		if err != nil { // not expected: each file is good
			f.noteLocked(err)
			return
		}
		f.mu.connections.CloseIdleConnections()
		f.mu.connections = connections
	}
	f.mu.credentials = next
	f.log.Info("credentials were replaced, new requests use them", "certificateAuthority", next.ca != before.ca,
		"clientCertificate", next.cert != before.cert || next.key != before.key, "token", next.token != before.token)
}

// noteLocked logs why a file can't be used, once for each reason.
func (f *credentialFiles) noteLocked(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != f.mu.failure {
		f.log.Warn("a credential file can't be used, what it held before stays in use", "error", err)
	}
	f.mu.failure = text
}

// doubt lets the next request read the files.
func (f *credentialFiles) doubt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.read = time.Time{}
}

// RoundTrip sends a request over the current connections.
func (f *credentialFiles) RoundTrip(req *http.Request) (*http.Response, error) {
	_, connections := f.current()
	return connections.RoundTrip(req)
}

// WrappedRoundTripper returns the current connections, for which client-go looks.
func (f *credentialFiles) WrappedRoundTripper() http.RoundTripper {
	_, connections := f.current()
	return connections
}

// An authenticator sends requests with the token of the files, if there is one. It
// doubts the files if a request fails, or isn't authenticated.
type authenticator struct {
	next  http.RoundTripper
	files *credentialFiles
}

// RoundTrip sends a request. It may be called concurrently.
func (a *authenticator) RoundTrip(req *http.Request) (*http.Response, error) {
	if token, _ := a.files.current(); token != "" && req.Header.Get("Authorization") == "" {
		req = utilnet.CloneRequest(req)
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := a.next.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusUnauthorized {
		a.files.doubt()
	}
	return resp, err
}

// WrappedRoundTripper returns the transport below, in which client-go looks for the
// connections.
func (a *authenticator) WrappedRoundTripper() http.RoundTripper { return a.next }
