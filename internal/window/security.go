package window

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// setHeaders sets the headers that every answer has.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store") // but for the page, which has no data in it
}

// accept answers the requests that are refused whoever sends them, and returns false for them. page says that
// no data is asked for.
func (w *Window) accept(rw http.ResponseWriter, req *http.Request, page bool) bool {
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		rw.Header().Set("Allow", "GET, HEAD")
		http.Error(rw, "the window is read only", http.StatusMethodNotAllowed)
	case w.opts.Loopback && !isLoopbackHost(req.Host):
		http.Error(rw, "the window is served to this machine alone: ask for it by the name localhost or by a loopback address", http.StatusForbidden)
	case !sameSite(req, page):
		http.Error(rw, "another site may not look through the window", http.StatusForbidden)
	default:
		return true
	}
	return false
}

// isLoopbackHost says whether the host of a request, with or without a port, means this machine, whatever
// a name server says.
func isLoopbackHost(hostport string) bool {
	host := hostport
	if h, port, err := net.SplitHostPort(hostport); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return false
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// sameSite says whether no other site has had a browser send the request. A browser says so itself; what
// isn't a browser says nothing. The page may be opened by a link.
func sameSite(req *http.Request, page bool) bool {
	switch site := req.Header.Values("Sec-Fetch-Site"); {
	case len(site) == 0:
	case len(site) > 1:
		return false
	case site[0] == "same-origin":
	case page && site[0] == "none":
	case page && req.Header.Get("Sec-Fetch-Mode") == "navigate" && req.Header.Get("Sec-Fetch-Dest") == "document":
	default:
		return false
	}
	origins := req.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	scheme := "http"
	if req.TLS != nil {
		scheme = "https"
	}
	origin, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && origin.Scheme == scheme && strings.EqualFold(origin.Host, req.Host)
}
