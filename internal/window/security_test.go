package window

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answerTo returns what w answers to a request that change has changed. The recorder is one that has no
// deadlines.
func answerTo(w http.Handler, method, path string, change func(req *http.Request)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, nil)
	req.Host = "localhost:8090"
	if change != nil {
		change(req)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, req)
	return rec
}

const recordingPath = "/window/recording?namespace=shop&name=a"

// On a loopback address, a request must be for a name of it: a site that has its own name mean 127.0.0.1 sends its own.
func TestHost(t *testing.T) {
	local, _ := opened(t, newSource())
	remote := New(newSource(), Options{Protect: func(next http.Handler) http.Handler { return next }})
	t.Cleanup(remote.Close)
	for host, tc := range map[string]struct {
		reason string
		ok     bool
	}{
		"localhost":              {"the usual name", true},
		"localhost:8090":         {"with a port", true},
		"LocalHost:80":           {"names are so", true},
		"sites.localhost:1":      {"browsers resolve it to loopback by themselves", true},
		"127.0.0.1":              {"the usual address", true},
		"127.0.0.1:8090":         {"with a port", true},
		"127.1.2.3:8090":         {"all of 127.0.0.0/8 is loopback", true},
		"[::1]:8090":             {"version 6", true},
		"[::1]":                  {"version 6, no port", true},
		"localhost.:8090":        {"the same, as a whole name", true},
		"":                       {"there is none", false},
		".localhost:8090.com":    {"no host", false},
		"a b.localhost":          {"no host", false},
		"evil.example.com":       {"rebinding", false},
		"evil.example.com:8090":  {"rebinding", false},
		"localhost.evil.com":     {"it only begins so", false},
		"evil-localhost":         {"it only ends so", false},
		"127.0.0.1.evil.com":     {"it only begins so", false},
		"127.0.0.1.nip.io:8090":  {"a name that means any address", false},
		"128.0.0.1:8090":         {"another network", false},
		"0.0.0.0:8090":           {"browsers have taken it for this machine", false},
		"[::]:8090":              {"the same", false},
		"192.168.1.1:8090":       {"another address of the machine", false},
		"localhost@evil.com":     {"no host", false},
		"localhost:80:80":        {"no host", false},
		"evil.com/localhost":     {"no host", false},
		"2130706433":             {"127.0.0.1 as a number, which a browser never sends", false},
		"[fe80::1%25lo]:8090":    {"another address", false},
		"localhost, evil.com":    {"two", false},
		"evil.com#.localhost":    {"no host", false},
		"evil.com:80#.localhost": {"no host", false},
	} {
		t.Run(host, func(t *testing.T) {
			want := http.StatusForbidden
			if tc.ok {
				want = http.StatusOK
			}
			for _, path := range []string{"/", "/assets/main.js", recordingPath} {
				rec := answerTo(local, http.MethodGet, path, func(req *http.Request) { req.Host = host })
				require.Equal(t, want, rec.Code, "%s: %s", path, tc.reason)
				if !tc.ok {
					require.Contains(t, rec.Body.String(), "localhost or by a loopback address")
				}
				rec = answerTo(remote, http.MethodGet, path, func(req *http.Request) { req.Host = host })
				require.Equal(t, http.StatusOK, rec.Code, "any name is right elsewhere")
			}
		})
	}
}

// A browser doesn't let another site's script see anything, but it sends the request.
func TestCrossSite(t *testing.T) {
	w, _ := opened(t, newSource())
	for name, tc := range map[string]struct {
		reason     string
		header     string // as "NAME: VALUE, NAME: VALUE"
		page, data bool   // let through
	}{
		"None":                 {"it is no browser", "", true, true},
		"Same origin":          {"the page itself", "Sec-Fetch-Site: same-origin", true, true},
		"Address bar":          {"people open the page, not its data", "Sec-Fetch-Site: none", true, false},
		"Link":                 {"from a chat or from documentation", "Sec-Fetch-Site: cross-site; Sec-Fetch-Mode: navigate; Sec-Fetch-Dest: document", true, false},
		"Frame":                {"another site has it inside", "Sec-Fetch-Site: cross-site; Sec-Fetch-Mode: navigate; Sec-Fetch-Dest: iframe", false, false},
		"Cross site":           {"another site's script", "Sec-Fetch-Site: cross-site; Sec-Fetch-Mode: cors", false, false},
		"Image":                {"another site's tag", "Sec-Fetch-Site: cross-site; Sec-Fetch-Mode: no-cors; Sec-Fetch-Dest: script", false, false},
		"Same site":            {"another port of this machine", "Sec-Fetch-Site: same-site", false, false},
		"Odd":                  {"nobody knows it", "Sec-Fetch-Site: friendly", false, false},
		"Empty":                {"nobody knows it", "Sec-Fetch-Site: ", false, false},
		"Two":                  {"which one?", "Sec-Fetch-Site: same-origin; Sec-Fetch-Site: same-origin", false, false},
		"Own origin":           {"the page itself", "Origin: http://localhost:8090", true, true},
		"Own origin, capitals": {"hosts are so", "Origin: http://LOCALHOST:8090", true, true},
		"Other origin":         {"another site", "Origin: http://evil.example.com", false, false},
		"Other port":           {"another program", "Origin: http://localhost:8091", false, false},
		"Other scheme":         {"another origin", "Origin: https://localhost:8090", false, false},
		"Null":                 {"a frame in a sandbox, or a file", "Origin: null", false, false},
		"Empty origin":         {"none has none", "Origin: ", false, false},
		"No URL":               {"nonsense", "Origin: ::", false, false},
		"Two origins":          {"which one?", "Origin: http://localhost:8090; Origin: http://localhost:8090", false, false},
		"They differ":          {"one of both is refused", "Sec-Fetch-Site: same-origin; Origin: http://evil.example.com", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(req *http.Request) {
				for each := range strings.SplitSeq(tc.header, "; ") {
					if name, value, ok := strings.Cut(each, ": "); ok {
						req.Header.Add(name, value)
					}
				}
			}
			for path, ok := range map[string]bool{"/": tc.page, recordingPath: tc.data} {
				want := http.StatusForbidden
				if ok {
					want = http.StatusOK
				}
				require.Equal(t, want, answerTo(w, http.MethodGet, path, change).Code, "%s: %s", path, tc.reason)
			}
		})
	}
	encrypted := func(origin string) int {
		return answerTo(w, http.MethodGet, "/", func(req *http.Request) {
			req.TLS = &tls.ConnectionState{}
			req.Header.Set("Origin", origin)
		}).Code
	}
	require.Equal(t, http.StatusOK, encrypted("https://localhost:8090"))
	require.Equal(t, http.StatusForbidden, encrypted("http://localhost:8090"))
}

// Every answer has the headers that keep other sites out.
func TestHeaders(t *testing.T) {
	w, _ := opened(t, newSource())
	for name, tc := range map[string]struct {
		method, path, host string
		status             int
		mediaType, cache   string
	}{
		"Page":        {"GET", "/", "", 200, "text/html; charset=utf-8", "no-cache"},
		"Style":       {"GET", "/assets/style.css", "", 200, "text/css; charset=utf-8", "no-cache"},
		"Script":      {"GET", "/assets/main.js", "", 200, "text/javascript; charset=utf-8", "no-cache"},
		"Icon":        {"GET", "/assets/icon.svg", "", 200, "image/svg+xml", "no-cache"},
		"Recording":   {"GET", recordingPath, "", 200, "application/x-ndjson", "no-store"},
		"No name":     {"GET", "/window/parent", "", 400, "text/plain; charset=utf-8", "no-store"},
		"No operator": {"GET", "/window/overview?operator=x", "", 404, "text/plain; charset=utf-8", "no-store"},
		"No path":     {"GET", "/nothing", "", 404, "text/plain; charset=utf-8", "no-store"},
		"No asset":    {"GET", "/assets/nothing.js", "", 404, "text/plain; charset=utf-8", "no-store"},
		"No data":     {"GET", "/window/nothing", "", 404, "text/plain; charset=utf-8", "no-store"},
		"Host":        {"GET", "/", "evil.example.com", 403, "text/plain; charset=utf-8", "no-store"},
		"Method":      {"POST", "/", "", 405, "text/plain; charset=utf-8", "no-store"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := answerTo(w, tc.method, tc.path, func(req *http.Request) {
				if tc.host != "" {
					req.Host = tc.host
				}
			})
			require.Equal(t, tc.status, rec.Code)
			for header, want := range map[string]string{
				"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
				"X-Content-Type-Options":       "nosniff",
				"X-Frame-Options":              "DENY",
				"Referrer-Policy":              "no-referrer",
				"Cross-Origin-Opener-Policy":   "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin",
				"Content-Type":                 tc.mediaType,
				"Cache-Control":                tc.cache,
			} {
				require.Equal(t, []string{want}, rec.Header().Values(header), header)
			}
			require.Empty(t, rec.Header().Values("Access-Control-Allow-Origin"))
		})
	}
}

func TestMethods(t *testing.T) {
	source := newSource()
	w, _ := opened(t, source)
	for _, path := range []string{"/", "/assets/main.js", overviewPath, parentPath, planPath, recordingPath, "/window/nothing"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"} {
			rec := answerTo(w, method, path, nil)
			require.Equal(t, http.StatusMethodNotAllowed, rec.Code, "%s %s", method, path)
			require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
		}
	}
	for path, mediaType := range map[string]string{
		"/": "text/html; charset=utf-8", "/assets/main.js": "text/javascript; charset=utf-8",
		overviewPath: "text/event-stream", parentPath: "text/event-stream", planPath: "text/event-stream", recordingPath: "application/x-ndjson",
	} {
		rec := answerTo(w, http.MethodHead, path, nil)
		require.Equal(t, http.StatusOK, rec.Code, path)
		require.Equal(t, mediaType, rec.Header().Get("Content-Type"), path)
		require.Zero(t, rec.Body.Len(), path)
	}
	require.Equal(t, http.StatusBadRequest, answerTo(w, http.MethodHead, "/window/parent", nil).Code)
	require.Equal(t, http.StatusNotFound, answerTo(w, http.MethodHead, "/window/plan?operator=x", nil).Code)
	require.Zero(t, source.looks.Load()+source.families.Load()+source.taps.Load(), "a HEAD has nothing looked at")
}

// There is nothing but what is documented.
func TestPaths(t *testing.T) {
	w, _ := opened(t, newSource())
	for _, path := range []string{
		"/index.html", "/assets", "/assets/", "/assets/index.html", "/assets/nothing", "/assets/../window.go", "/assets/..%2fwindow.go", "/assets/%2e%2e/window.go", "/assets//main.js", "/assets/main.js/",
		"/window", "/window/", "/window/Overview", "/window/overview/", "/window//overview", "/window/../window/overview", "//window/overview", "/./window/overview", "/favicon.ico", "/debug/pprof/", "/metrics",
	} {
		require.Equal(t, http.StatusNotFound, answerTo(w, http.MethodGet, path, nil).Code, path)
	}
}

// What hasn't changed isn't sent again.
func TestAssets_ETag(t *testing.T) {
	w, _ := opened(t, newSource())
	page, script := answerTo(w, http.MethodGet, "/", nil), answerTo(w, http.MethodGet, "/assets/main.js", nil)
	tag := page.Header().Get("ETag")
	require.Regexp(t, `^"[0-9a-f]{24}"$`, tag)
	require.NotEqual(t, tag, script.Header().Get("ETag"))
	again := answerTo(w, http.MethodGet, "/", func(req *http.Request) { req.Header.Set("If-None-Match", tag) })
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Zero(t, again.Body.Len())
	again = answerTo(w, http.MethodGet, "/", func(req *http.Request) { req.Header.Set("If-None-Match", `"other"`) })
	require.Equal(t, page.Body.String(), again.Body.String())
}

// All that the page refers to is there, and has a media type.
func TestAssets_Complete(t *testing.T) {
	w, _ := opened(t, newSource())
	entries, err := assets.ReadDir("assets")
	require.NoError(t, err)
	for _, entry := range entries {
		if name := entry.Name(); name != "index.html" {
			require.Equal(t, http.StatusOK, answerTo(w, http.MethodGet, "/assets/"+name, nil).Code, name)
		}
	}
	page := answerTo(w, http.MethodGet, "/", nil).Body.String()
	require.NotRegexp(t, `(?i)<script>|<style|\son[a-z]+=|style=|javascript:|https?://`, page, "the policy forbids it")
}

// What protects the window stands before the data, even before what isn't there, but not before the page.
func TestProtect(t *testing.T) {
	source := newSource()
	var asked []string
	protect := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			asked = append(asked, req.URL.Path)
			if req.Header.Get("Authorization") != "Bearer good" {
				http.Error(rw, "Unauthorized", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(rw, req)
		})
	}
	w := New(source, Options{Protect: protect, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(w.Close)
	for path, data := range map[string]bool{
		"/": false, "/assets/main.js": false, "/nothing": false,
		"/window/": true, "/window/nothing": true, "/window/overview": true, "/window/overview?operator=x": true, "/window/parent": true, "/window/plan": true, recordingPath: true,
	} {
		asked = nil
		rec := answerTo(w, http.MethodGet, path, nil)
		require.Equal(t, data, len(asked) == 1, path)
		require.Equal(t, data, rec.Code == http.StatusUnauthorized, path)
		if data {
			require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
			require.NotContains(t, rec.Body.String(), "sites")
		}
	}
	rec := answerTo(w, http.MethodGet, recordingPath, func(req *http.Request) { req.Header.Set("Authorization", "Bearer good") })
	require.Equal(t, http.StatusOK, rec.Code)

	bare := New(source, Options{})
	t.Cleanup(bare.Close)
	rec = answerTo(bare, http.MethodGet, recordingPath, nil)
	require.Equal(t, http.StatusForbidden, rec.Code, "nothing protects it")
	require.Equal(t, http.StatusOK, answerTo(bare, http.MethodGet, "/", nil).Code)
	require.Zero(t, source.looks.Load()+source.taps.Load())
}
