package reach

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/explain"
)

func question() Question {
	return Question{Operator: "sites", Parent: types.NamespacedName{Namespace: "shop", Name: "blog"}}
}

// pod returns the JSON of a Pod.
func pod(name, phase, args string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"ops","name":%q},"spec":{"containers":[{"name":"operator","args":[%s],"ports":[{"name":"metrics","containerPort":9090}]}]},"status":{"phase":%q}}`, name, args, phase)
}

func TestAsk_Pods(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`
	list := func(pods ...string) string { return `{"items":[` + strings.Join(pods, ",") + `]}` }
	proxy := func(target string) string { return "/api/v1/namespaces/ops/pods/" + target + "/proxy" + explain.Path }
	for name, tc := range map[string]struct {
		reason  string
		process Process
		answers map[string]string // path -> body; a body with a code fails
		want    explain.Process
	}{
		"Leader": {"of several the one counts that leads", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods":  list(pod("gone", "Succeeded", ""), pod("a", "Running", ""), pod("b", "Running", "")),
			proxy("a:9090"): `{"from":"a","leading":false,"held":true}`, proxy("b:9090"): `{"from":"b","leading":true,"held":true,"failures":2}`,
		}, explain.Process{From: "b", Leading: true, Held: true, Failures: 2}},
		"Standby": {"better than nothing", Process{Program: "sites", Namespace: "ops"}, map[string]string{
			"/api/v1/namespaces/ops/pods": list(pod("a", "Running", ""), pod("b", "Running", "")),
			proxy("a:9090"):               `{"from":"a","held":true}`, proxy("b:9090"): `{"from":"b","held":true}`,
		}, explain.Process{From: "a", Held: true}},
		"OneAnswers": {"a Pod that can't be reached doesn't matter then", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods": list(pod("a", "Running", ""), pod("b", "Running", "")), proxy("b:9090"): `{"from":"b","leading":true}`,
		}, explain.Process{From: "b", Leading: true}},
		"Secure": {"the API server is told to use TLS", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods": list(pod("a", "Running", `"--metrics-secure"`)), proxy("https:a:9090"): `{"from":"a","leading":true}`,
		}, explain.Process{From: "a", Leading: true}},
		"NoPods":    {"it runs elsewhere", Process{Program: "sites"}, map[string]string{"/api/v1/pods": list()}, explain.Process{Unknown: "no Pod with the label app.kubernetes.io/name=sites runs in any namespace; --process-namespace and --process-url say where it is"}},
		"Forbidden": {"the user may not list Pods", Process{Program: "sites"}, map[string]string{"/api/v1/pods": "403 " + fmt.Sprintf(status, "pods is forbidden", 403)}, explain.Process{Unknown: "list Pods in any namespace: pods is forbidden; --process-namespace and --process-url say where it is"}},
		"NoProxy": {"the user may list Pods, and no more", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods": list(pod("a", "Running", "")), proxy("a:9090"): "403 " + fmt.Sprintf(status, "pods/proxy is forbidden", 403),
		}, explain.Process{Unknown: "Pod ops/a: it can't be asked through the API server: pods/proxy is forbidden"}},
		"Protected": {"the API server passes no token on", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods": list(pod("a", "Running", "")), proxy("a:9090"): "401 Unauthorized",
		}, explain.Process{Unknown: "Pod ops/a: it is protected, and answers 401 Unauthorized; forward its port, and use --process-url and --process-token-file"}},
		"Older": {"an earlier build has no such page", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods": list(pod("a", "Running", "")),
		}, explain.Process{Unknown: "Pod ops/a: it answers 404 Not Found; its build may be older than this one"}},
		"Nonsense": {"something else listens there", Process{Program: "sites"}, map[string]string{
			"/api/v1/pods": list(pod("a", "Running", "")), proxy("a:9090"): "<html>",
		}, explain.Process{Unknown: "Pod ops/a: its answer is no JSON of an explanation: invalid character '<' looking for beginning of value"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, http.MethodGet, r.Method)
				body, ok := tc.answers[r.URL.Path]
				if !ok {
					http.NotFound(w, r)
					return
				}
				if strings.HasSuffix(r.URL.Path, explain.Path) {
					assert.Equal(t, "name=blog&namespace=shop&operator=sites", r.URL.RawQuery)
				} else {
					assert.Equal(t, "app.kubernetes.io/name=sites", r.URL.Query().Get("labelSelector"))
				}
				code := http.StatusOK
				if n, rest, ok := strings.Cut(body, " "); ok && len(n) == 3 {
					_, err := fmt.Sscan(n, &code)
					assert.NoError(t, err)
					body = rest
				}
				if strings.HasPrefix(body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(code)
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			require.Equal(t, tc.want, Ask(t.Context(), &rest.Config{Host: server.URL}, tc.process, question()), tc.reason)
		})
	}
}

func TestAsk_URL(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("abc\n"), 0o600))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != explain.Path:
			http.Redirect(w, r, explain.Path, http.StatusFound)
		case r.Header.Get("Authorization") != "Bearer abc":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"from":"pod","leading":true}`))
		}
	}))
	defer server.Close()
	ask := func(p Process) explain.Process {
		require.NoError(t, p.Check())
		return Ask(t.Context(), nil, p, question())
	}
	require.Equal(t, explain.Process{From: "pod", Leading: true}, ask(Process{URL: server.URL + "/", TokenFile: token, Insecure: true}))
	require.Contains(t, ask(Process{URL: server.URL, TokenFile: token}).Unknown, "certificate", "nobody vouches for it")
	require.Contains(t, ask(Process{URL: server.URL, Insecure: true}).Unknown, "it is protected")
	require.Contains(t, ask(Process{URL: server.URL, TokenFile: token + "-lost", Insecure: true}).Unknown, "no such file")
	require.Contains(t, ask(Process{URL: server.URL + "/elsewhere", TokenFile: token, Insecure: true}).Unknown, "it answers 302 Found", "a token goes nowhere else")
	require.Equal(t, "--process-url is none", ask(Process{URL: None}).Unknown)
	require.Contains(t, ask(Process{URL: "http://127.0.0.1:1"}).Unknown, "connection refused")
}
