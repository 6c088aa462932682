package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"
)

// A transport is how all requests are made: from a mirror if there is one, with
// bounds on how long a host may say nothing, and told to the progress.
type transport struct {
	mirror   *url.URL // nil: each file from its own host
	silence  time.Duration
	progress *progress
	base     *http.Transport
}

func newTransport(mirror *url.URL, silence time.Duration, progress *progress) *transport {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &transport{
		mirror: mirror, silence: silence, progress: progress,
		base: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			TLSHandshakeTimeout:   connectTimeout,
			ResponseHeaderTimeout: silence,
			DisableCompression:    true, // what is large is packed, and its length tells of the progress
			ForceAttemptHTTP2:     true,
		},
	}
}

// published says whether a host is one of those that a mirror stands for. A redirect elsewhere is followed.
func published(host string) bool {
	switch host {
	case "raw.githubusercontent.com", "github.com", "dl.k8s.io":
		return true
	}
	return false
}

// locate returns where a published file is asked for.
func locate(mirror *url.URL, published string) string {
	location, err := url.Parse(published)
	if mirror == nil || err != nil {
		return published
	}
	return onMirror(mirror, location).String()
}

// shown is a URL as messages have it: without a password.
func shown(location string) string {
	parsed, err := url.Parse(location)
	if err != nil {
		return "a URL that can't be read"
	}
	return parsed.Redacted()
}

func onMirror(mirror, location *url.URL) *url.URL {
	joined := *mirror
	joined.Path, joined.RawPath = path.Join("/", mirror.Path, location.Path), ""
	return &joined
}

// RoundTrip makes one request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	req = req.Clone(ctx)
	if t.mirror != nil && published(req.URL.Host) { // the index of envtest has links to its host
		req.URL, req.Host = onMirror(t.mirror, req.URL), ""
		if user := t.mirror.User; user != nil {
			password, _ := user.Password()
			req.SetBasicAuth(user.Username(), password)
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		cancel(nil)
		if t.mirror != nil {
			err = fmt.Errorf("mirror %s: %w", t.mirror.Redacted(), err)
		}
		return nil, err
	}
	b := &body{
		ReadCloser: resp.Body, silence: t.silence, size: resp.ContentLength,
		cause: func() error { return context.Cause(ctx) }, end: func() { cancel(nil) },
	}
	b.timer = time.AfterFunc(t.silence, func() { cancel(fmt.Errorf("nothing has come for %v", t.silence)) })
	if resp.StatusCode == http.StatusOK && t.progress.expect(resp.ContentLength) {
		b.progress = t.progress
	}
	resp.Body = b
	return resp, nil
}

// A body is an answer's body that ends with an error if nothing comes for a while.
type body struct {
	io.ReadCloser
	cause    func() error // why the request was ended from here, nil if it wasn't
	end      func()
	timer    *time.Timer
	silence  time.Duration
	size     int64 // -1: unknown
	read     int64
	progress *progress // nil: too small to tell of
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.progress != nil {
		b.progress.got(n)
	}
	if n > 0 {
		b.timer.Reset(b.silence)
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case b.cause() != nil:
		err = b.cause()
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the connection has ended early")
	}
	if b.size < 0 {
		return n, fmt.Errorf("after %s: %w", megabytes(b.read), err)
	}
	return n, fmt.Errorf("after %s of %s: %w", megabytes(b.read), megabytes(b.size), err)
}

func (b *body) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.end()
	return err
}
