package window

import (
	"net/http"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// referred returns the paths that an asset refers to, as a browser resolves them.
func referred(at, text string) (out []string) {
	for _, pattern := range []string{`(?:src|href)="([^"#]+)"`, `(?:from|import)\s*"([^"]+)"`, `import\("([^"]+)"\)`, `url\("?([^)"]+)"?\)`} {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out = append(out, path.Join(path.Dir(at), found[1]))
		}
	}
	return out
}

// Whatever the page needs is there, and whatever is there is needed but the types, which are for the checker.
func TestReach_Assets(t *testing.T) {
	w, _ := opened(t, newSource())
	reached := map[string]bool{}
	for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
		if at := todo[0]; !reached[at] {
			reached[at] = true
			rec := answerTo(w, http.MethodGet, at, nil)
			require.Equal(t, http.StatusOK, rec.Code, at)
			todo = append(todo, referred(at, rec.Body.String())...)
		}
	}
	require.True(t, reached["/assets/stream.js"], "imports are followed")
	entries, err := assets.ReadDir("assets")
	require.NoError(t, err)
	for _, entry := range entries {
		if name := entry.Name(); name != "index.html" && name != "types.js" {
			require.True(t, reached["/assets/"+name], "%s is needed", name)
		}
	}
}

// A rareAnswer is a request, and the status of its answer.
type rareAnswer struct {
	reason       string
	w            *Window
	method, path string
	header       [2]string
	status       int
}

// rareAnswers returns requests by their names. w is a window that is as usual.
func rareAnswers(t *testing.T, w *Window) map[string]rareAnswer {
	t.Helper()
	full, _ := opened(t, newSource())
	full.opts.maxStreams = 0
	closed, _ := opened(t, newSource())
	closed.Close()
	bare := New(newSource(), Options{})
	t.Cleanup(bare.Close)
	broken, _ := opened(t, newSource())
	broken.source.(*fakeSource).on("tap", func() { panic("broken") })
	tag := answerTo(w, http.MethodGet, "/", nil).Header().Get("ETag")
	return map[string]rareAnswer{
		"Not modified":  {"the page is known", w, "GET", "/", [2]string{"If-None-Match", tag}, 304},
		"Part":          {"somebody goes on with an asset", w, "GET", "/assets/main.js", [2]string{"Range", "bytes=0-9"}, 206},
		"No part":       {"there is none there", w, "GET", "/assets/main.js", [2]string{"Range", "bytes=99999999-"}, 416},
		"Full":          {"too many streams", full, "GET", overviewPath, [2]string{}, 503},
		"Closed":        {"the window is closed", closed, "GET", parentPath, [2]string{}, 503},
		"Closed file":   {"the window is closed", closed, "GET", recordingPath, [2]string{}, 503},
		"Closed plan":   {"the window is closed", closed, "GET", planPath, [2]string{}, 503},
		"Closed page":   {"it has no data", closed, "GET", "/", [2]string{}, 200},
		"Unprotected":   {"nothing protects it", bare, "GET", "/window/x", [2]string{}, 403},
		"Panic":         {"the source panics", broken, "GET", parentPath, [2]string{}, 500},
		"Other site":    {"a script of another site", w, "GET", recordingPath, [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"HEAD":          {"a stream", w, "HEAD", overviewPath, [2]string{}, 200},
		"HEAD page":     {"the page", w, "HEAD", "/", [2]string{}, 200},
		"HEAD none":     {"there is no such asset", w, "HEAD", "/assets/none.js", [2]string{}, 404},
		"HEAD refused":  {"another site", w, "HEAD", "/", [2]string{"Origin", "null"}, 403},
		"Empty method":  {"no method is GET", w, "", "/", [2]string{}, 405},
		"Long way home": {"no path leaves the assets", w, "GET", "/assets/../doc.go", [2]string{}, 404},
	}
}

// The answers that are rare have the headers that keep other sites out, too, and so have those to a HEAD.
func TestReach_Headers(t *testing.T) {
	source := newSource()
	w, _ := opened(t, source)
	for name, tc := range rareAnswers(t, w) {
		t.Run(name, func(t *testing.T) {
			rec := answerTo(tc.w, http.MethodGet, tc.path, func(req *http.Request) {
				if req.Method = tc.method; tc.header[0] != "" {
					req.Header.Set(tc.header[0], tc.header[1])
				}
			})
			require.Equal(t, tc.status, rec.Code, tc.reason)
			want := http.Header{}
			setHeaders(want)
			want.Del("Cache-Control")
			for header := range want {
				require.Equal(t, want.Values(header), rec.Header().Values(header), "%s: %s", header, tc.reason)
			}
			require.Equal(t, tc.status == 503, rec.Header().Get("Retry-After") != "", tc.reason)
			if tc.method == http.MethodHead && tc.status == 200 {
				require.Zero(t, rec.Body.Len(), tc.reason)
			}
		})
	}
	require.Zero(t, source.looks.Load()+source.taps.Load())
}

// Names of hosts that the other table lacks.
func TestReach_Host(t *testing.T) {
	for host, tc := range map[string]struct {
		reason string
		ok     bool
	}{
		"LOCALHOST:80":       {"names are so", true},
		"foo.localhost":      {"every name below localhost is loopback", true},
		"127.0.0.1:1":        {"any port", true},
		"[::1]:1":            {"version 6", true},
		"::1":                {"version 6, without the brackets", true},
		"127.1.2.3":          {"all of 127.0.0.0/8", true},
		"evil.com":           {"rebinding", false},
		"127.0.0.1.evil.com": {"it only begins so", false},
		"":                   {"there is none", false},
		"10.0.0.1":           {"another machine", false},
		"0.0.0.0":            {"all addresses", false},
		"[::ffff:7f00:1]":    {"127.0.0.1 as one of version 6", true},
		"[::ffff:a00:1]":     {"10.0.0.1 as one of version 6", false},
		"127.1":              {"127.0.0.1 in short, which a browser never sends", false},
		"0x7f.0.0.1":         {"the same", false},
		"localhost:0x50":     {"no port", false},
		"localhost\x00":      {"no host", false},
		"loca\u017fhost":     {"it is localhost only when letters are folded", false},
	} {
		require.Equal(t, tc.ok, isLoopbackHost(host), "%q: %s", host, tc.reason)
	}
}
