package redirect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

func TestRefuse(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		code     int
		location string // ELSEWHERE: the other server; empty: no such header
		want     string // of the error; empty: there is none
	}{
		"success":            {"it is no redirect", http.StatusOK, "ELSEWHERE", ""},
		"not modified":       {"net/http sends no other request for it", http.StatusNotModified, "ELSEWHERE", ""},
		"choices":            {"net/http sends no other request for it", http.StatusMultipleChoices, "ELSEWHERE", ""},
		"moved":              {"a GET would follow", http.StatusMovedPermanently, "ELSEWHERE", `redirect (301) to "http://127.0.0.1:`},
		"found":              {"a GET would follow", http.StatusFound, "ELSEWHERE", `redirect (302) to "http://127.0.0.1:`},
		"see other":          {"a POST would become a GET", http.StatusSeeOther, "ELSEWHERE", `redirect (303) to "http://127.0.0.1:`},
		"temporary":          {"a POST would follow with its body", http.StatusTemporaryRedirect, "ELSEWHERE", `redirect (307) to "http://127.0.0.1:`},
		"permanent":          {"a POST would follow with its body", http.StatusPermanentRedirect, "ELSEWHERE", `redirect (308) to "http://127.0.0.1:`},
		"relative":           {"another path of the API server is none that the caller asked for", http.StatusFound, "../../secrets", "to another path of the same host"},
		"none":               {"net/http's own error tells less", http.StatusFound, "", "to an invalid address"},
		"invalid":            {"the text is the server's", http.StatusFound, "://elsewhere", "to an invalid address"},
		"long":               {"the text is the server's", http.StatusFound, "http://" + strings.Repeat("a", 5000) + "/", `aaa", and redirects are not followed`},
		"password and query": {"they may be secret", http.StatusFound, "http://user:hush@other.example/hush?hush", `to "http://other.example", and`},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+"/"+method, func(t *testing.T) {
				var asked, others atomic.Int32
				elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
				defer elsewhere.Close()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked.Add(1)
					if tc.location != "" {
						w.Header().Set("Location", strings.ReplaceAll(tc.location, "ELSEWHERE", elsewhere.URL))
					}
					w.WriteHeader(tc.code)
				}))
				defer server.Close()
				client := &http.Client{Transport: Refuse(nil)}
				req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/pods", strings.NewReader("body"))
				require.NoError(t, err)
				resp, err := client.Do(req)
				if tc.want == "" {
					require.NoError(t, err, tc.reason)
					require.Equal(t, tc.code, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
				} else {
					require.ErrorContains(t, err, tc.want, tc.reason)
					require.NotContains(t, err.Error(), "hush", tc.reason)
					require.Less(t, len(err.Error()), 400, tc.reason)
				}
				require.EqualValues(t, 1, asked.Load(), tc.reason)
				require.Zero(t, others.Load(), tc.reason)
			})
		}
	}
}

// client-go looks for the connections below each transport.
func TestRefuse_Connections(t *testing.T) {
	below := &http.Transport{}
	wrapped, ok := Refuse(below).(utilnet.RoundTripperWrapper)
	require.True(t, ok)
	require.Same(t, below, wrapped.WrappedRoundTripper())
}
