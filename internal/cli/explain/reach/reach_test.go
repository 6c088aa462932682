package reach

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
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
		}, explain.Process{Unknown: "Pod ops/a: it is protected, and answers 401 Unauthorized, since the API server passes no token on; run kubectl -n ops port-forward pod/a 9090, " +
			"and use --process-url https://localhost:9090 --process-insecure --process-token-file FILE"}},
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

// A Pod chooses what it answers: its redirect would bring the caller's credentials to any host.
func TestAsk_PodsThatRedirect(t *testing.T) {
	others := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others++ }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as the API server
		if strings.HasSuffix(r.URL.Path, explain.Path) {
			http.Redirect(w, r, other.URL, http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(`{"items":[` + pod("a", "Running", "") + `]}`))
	}))
	defer server.Close()
	known := Ask(t.Context(), &rest.Config{Host: server.URL, BearerToken: "token"}, Process{Program: "sites"}, question())
	require.Contains(t, known.Unknown, "Pod ops/a: ")
	require.Contains(t, known.Unknown, `the response is a redirect (302) to "`+other.URL+`"`)
	require.Zero(t, others)
}

// The program may serve with TLS, or without, whatever the arguments of its container say.
func TestAsk_PodsByTheOtherScheme(t *testing.T) {
	process := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"from":"a","leading":true}`)) })
	plain, secure := httptest.NewServer(process), httptest.NewTLSServer(process)
	defer plain.Close()
	defer secure.Close()
	answered := explain.Process{From: "a", Leading: true}
	for name, tc := range map[string]struct {
		reason    string
		args      string
		process   *httptest.Server
		confused  bool // whether each scheme is answered as the wrong one
		want      explain.Process
		questions int
	}{
		"ByArgument":     {"it says so", `"--metrics-secure"`, secure, false, answered, 1},
		"Plain":          {"it says nothing", "", plain, false, answered, 1},
		"SecureByCode":   {"Options.MetricsSecure is set", "", secure, false, answered, 2},
		"PlainByCode":    {"a later argument, or an own flag, says otherwise", `"--metrics-secure"`, plain, false, answered, 2},
		"NeitherAnswers": {"nobody is asked for ever", "", secure, true, explain.Process{Unknown: "Pod ops/a: it answers 400 Bad Request: Client sent an HTTP request to an HTTPS server."}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			questions := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as the API server
				target, isProxy := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/ops/pods/")
				if !isProxy {
					_, _ = w.Write([]byte(`{"items":[` + pod("a", "Running", tc.args) + `]}`))
					return
				}
				questions++
				to := *r.URL
				to.Scheme, to.Host, to.Path = "http", tc.process.Listener.Addr().String(), explain.Path
				if strings.HasPrefix(target, "https:") && !tc.confused {
					to.Scheme = "https"
				}
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
				answer, err := client.Get(to.String())
				if err != nil {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusServiceUnavailable)
					_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "message": "error trying to reach service: " + err.Error(), "code": http.StatusServiceUnavailable})
					return
				}
				defer answer.Body.Close()
				w.WriteHeader(answer.StatusCode)
				_, _ = io.Copy(w, answer.Body)
			}))
			defer server.Close()
			require.Equal(t, tc.want, Ask(t.Context(), &rest.Config{Host: server.URL}, Process{Program: "sites"}, question()), tc.reason)
			require.Equal(t, tc.questions, questions)
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
		case r.Header.Get("Authorization") == "Bearer other":
			http.Error(w, "Forbidden: user \"other\" cannot get path", http.StatusForbidden)
		case r.Header.Get("Authorization") != "Bearer abc":
			http.Error(w, "Unauthorized: who are you?", http.StatusUnauthorized)
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
	require.Equal(t, "it is protected, and answers 401 Unauthorized; use --process-token-file", ask(Process{URL: server.URL, Insecure: true}).Unknown)
	other, unknown := token+"-other", token+"-unknown"
	require.NoError(t, os.WriteFile(other, []byte("other"), 0o600))
	require.NoError(t, os.WriteFile(unknown, []byte("unknown"), 0o600))
	require.Equal(t, `it answers 403 Forbidden: user "other" cannot get path; add the rule {nonResourceURLs: ["/debug/roperator/explain"], verbs: ["get"]} to a ClusterRole of theirs`,
		ask(Process{URL: server.URL, TokenFile: other, Insecure: true}).Unknown)
	require.Equal(t, "it answers 401 Unauthorized to the token in "+unknown+": who are you?", ask(Process{URL: server.URL, TokenFile: unknown, Insecure: true}).Unknown)
	require.Contains(t, ask(Process{URL: strings.Replace(server.URL, "https:", "http:", 1)}).Unknown, "HTTP request to an HTTPS server.; use https:// in --process-url")
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	require.Contains(t, ask(Process{URL: strings.Replace(plain.URL, "http:", "https:", 1)}).Unknown, "server gave HTTP response to HTTPS client; use http:// in --process-url")
	require.Contains(t, ask(Process{URL: server.URL, TokenFile: token + "-lost", Insecure: true}).Unknown, "no such file")
	require.Contains(t, ask(Process{URL: server.URL + "/elsewhere", TokenFile: token, Insecure: true}).Unknown, "it answers 302 Found", "a token goes nowhere else")
	require.Equal(t, "--process-url is none", ask(Process{URL: None}).Unknown)
	require.Contains(t, ask(Process{URL: "http://127.0.0.1:1"}).Unknown, "connection refused")
}
