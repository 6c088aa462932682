// Package redirect keeps an HTTP client from following redirects:
//
//	client.Transport = redirect.Refuse(client.Transport)
//
// A Kubernetes API server redirects no request of the API. It passes on the response of a
// Pod, a Service or an aggregated API server, though. net/http would send the request again
// to the address in that response, in many cases with the same credentials.
package redirect

import (
	"fmt"
	"net/http"
	"net/url"
)

// maxHost is the number of bytes of a host that an error quotes.
const maxHost = 100

// Refuse returns a transport over which a response that redirects is an error. The error
// names the host, and no other part of the address. A nil next is http.DefaultTransport.
// The transport may be used concurrently if next may.
func Refuse(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{next}
}

type transport struct{ next http.RoundTripper }

// RoundTrip sends a request once.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || !redirects(resp) {
		return resp, err
	}
	_ = resp.Body.Close() // nothing of it is used
	return nil, fmt.Errorf("the response is a redirect (%d) to %s, and redirects are not followed, because the request has credentials",
		resp.StatusCode, target(req.URL, resp.Header.Get("Location")))
}

// redirects reports whether net/http would send another request for a response.
func redirects(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// target returns the host that a Location names, quoted. The server chooses that text.
func target(from *url.URL, location string) string {
	to, err := from.Parse(location)
	switch {
	case err != nil || location == "":
		return "an invalid address"
	case to.Scheme == from.Scheme && to.Host == from.Host:
		return "another path of the same host"
	}
	return fmt.Sprintf("%.*q", maxHost, to.Scheme+"://"+to.Host)
}

// WrappedRoundTripper returns the transport below, in which client-go looks for the
// connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
