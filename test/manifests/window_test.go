package manifests

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/runner"
)

// A window that isn't on a loopback address is for those alone whom RBAC lets look, with what manifests prints, and
// the rights that the operator has anyway are enough for all that it shows.
func TestProtectedWindow(t *testing.T) {
	t.Parallel()
	address := plane.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	everywhere := net.JoinHostPort("0.0.0.0", port)
	s := newStage(t, false, func(_ string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }, "--arg=--window-bind-address="+everywhere)
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	viewer, nobody := s.account(admin, "viewer", s.namespace+"-operator-window-viewer"), s.account(admin, "nobody", "")
	s.mayGet(admin, "viewer", "/window/overview")
	s.options = func(o *runner.Options) { o.WindowAddress = everywhere }
	stop := s.start(false)
	defer stop()

	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it is self-signed
	}}
	// get returns the answer up to the line that has end in it.
	get := func(path, token, end string) (code int, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			body += lines.Text() + "\n"
			if end != "" && strings.Contains(lines.Text(), end) {
				break
			}
		}
		return resp.StatusCode, body
	}
	s.await("", "it leads", func() bool {
		code, body := get("/window/overview", viewer, `"leading":`)
		return code == http.StatusOK && strings.Contains(body, `"leading":true`)
	})
	for name, tc := range map[string]struct {
		reason, path, token string
		want                int
		end                 string
	}{
		"Page":       {"it has no data", "/", "", http.StatusOK, ""},
		"None":       {"nobody knows who asks", "/window/overview", "", http.StatusUnauthorized, ""},
		"Garbage":    {"the API server knows no such token", "/window/parent?namespace=a&name=b", "Kanarienvogel", http.StatusUnauthorized, ""},
		"NoRight":    {"its account has no right", "/window/plan", nobody, http.StatusForbidden, ""},
		"Recording":  {"likewise", "/window/recording?namespace=a&name=b", nobody, http.StatusForbidden, ""},
		"Overview":   {"it has the role that manifests prints", "/window/overview", viewer, http.StatusOK, "event: figures"},
		"OtherPaths": {"the role is for all that the window has", "/window/parent?namespace=" + s.namespace + "&name=none", viewer, http.StatusOK, "event: unknown"},
		"Plan":       {"the operator has the rights to plan", "/window/plan", viewer, http.StatusOK, "event: end"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := get(tc.path, tc.token, tc.end)
			require.Equal(t, tc.want, code, "%s: %s: %s", tc.reason, body, s.said())
			require.Contains(t, body, tc.end, tc.reason)
			require.NotContains(t, body, "event: problem", tc.reason)
		})
	}
	for _, token := range []string{"Kanarienvogel", viewer, nobody} {
		require.NotContains(t, s.said(), token)
	}
}
