package client

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/internal/redirect"
)

// httpClientFor returns a client as rest.HTTPClientFor does, except that it renews its
// connections and follows no redirect. It returns an error if a file can't be used.
func httpClientFor(rc *rest.Config, log *slog.Logger) (*http.Client, error) {
	tripper, err := newRenewer(rc, log)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: redirect.Refuse(tripper), Timeout: rc.Timeout}, nil
}

// A renewer is the http.RoundTripper of client-go for a configuration that names
// credential files. client-go reads a token again after 50 seconds, certificates and
// authorities after five minutes. That is too late if the old ones are not accepted any
// more: a renewer replaces the round tripper before the request that follows one that
// failed or was answered 401, if a file has changed. While a file can't be
// used, the round tripper stays. Methods may be called concurrently.
type renewer struct {
	config *rest.Config // not to be changed
	files  []string
	log    *slog.Logger

	mu struct {
		sync.Mutex
		current http.RoundTripper
		held    [sha256.Size]byte // the hash of what the files held when current was made
		doubted bool              // a request has failed since the files were read
		failure string            // why a file can't be used; empty: all can
	}
}

// newRenewer returns a renewer, or client-go's round tripper if the configuration names no
// file whose content may be replaced.
func newRenewer(rc *rest.Config, log *slog.Logger) (http.RoundTripper, error) {
	r := &renewer{config: rest.CopyConfig(rc), files: credentialFilesOf(rc), log: log}
	if len(r.files) == 0 {
		return rest.TransportFor(rc)
	}
	if r.config.Proxy == nil {
		r.config.Proxy = http.ProxyFromEnvironment // the default, with which client-go makes new connections each time
	}
	needed := slices.Clone(r.files)
	if rc.BearerToken != "" { // it serves until its file can be read
		needed = slices.DeleteFunc(needed, func(file string) bool { return file == rc.BearerTokenFile })
	}
	if _, err := r.contents(needed); err != nil {
		return nil, err
	}
	r.mu.held, _ = r.contents(r.files)
	var err error
	r.mu.current, err = rest.TransportFor(r.config)
	return r, err
}

// credentialFilesOf returns the files of a configuration that client-go reads again.
func credentialFilesOf(rc *rest.Config) (files []string) {
	if rc.CAFile != "" && len(rc.CAData) == 0 {
		files = append(files, rc.CAFile)
	}
	if rc.CertFile != "" && rc.KeyFile != "" && len(rc.CertData)+len(rc.KeyData) == 0 {
		files = append(files, rc.CertFile, rc.KeyFile)
	}
	if rc.BearerTokenFile != "" {
		files = append(files, rc.BearerTokenFile)
	}
	return files
}

// contents returns a hash of what files hold. It returns an error if one of them can't be used:
// it is missing or empty, or it is no authority, or a certificate and its key don't belong together.
func (r *renewer) contents(files []string) (held [sha256.Size]byte, err error) {
	sum := sha256.New()
	for _, file := range files {
		text, err := process.ReadFile(file)
		switch {
		case err != nil:
		case len(bytes.TrimSpace(text)) == 0:
			err = errors.New("the file is empty")
		case file == r.config.CAFile && !x509.NewCertPool().AppendCertsFromPEM(text):
			err = errors.New("no certificate")
		case file == r.config.CertFile:
			_, err = tls.LoadX509KeyPair(file, r.config.KeyFile)
		}
		if err != nil {
			return held, fmt.Errorf("credentials: %s: %w", file, err)
		}
		fmt.Fprintf(sum, "%d %s", len(text), text)
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}

// RoundTrip sends a request.
func (r *renewer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.renewed().RoundTrip(req)
	if err != nil && req.Context().Err() == nil || err == nil && resp.StatusCode == http.StatusUnauthorized {
		r.mu.Lock()
		r.mu.doubted = true
		r.mu.Unlock()
	}
	return resp, err
}

// renewed returns the round tripper that a request should use now.
func (r *renewer) renewed() http.RoundTripper {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.doubted {
		return r.mu.current
	}
	r.mu.doubted = false
	held, err := r.contents(r.files)
	if err == nil && held == r.mu.held {
		r.mu.failure = ""
		return r.mu.current
	}
	var made http.RoundTripper
	if err == nil {
		made, err = rest.TransportFor(r.config)
	}
	if err != nil {
		if text := err.Error(); text != r.mu.failure {
			r.mu.failure = text
			r.log.Warn("a credential file can't be used, what it held before stays in use", "error", err)
		}
		return r.mu.current
	}
	r.mu.current, r.mu.held, r.mu.failure = made, held, ""
	r.log.Info("credentials were replaced, new requests use them")
	return made
}

// WrappedRoundTripper returns the round tripper below, in which client-go looks for the
// connections.
func (r *renewer) WrappedRoundTripper() http.RoundTripper {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.current
}
