package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	engine "github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

// ask asks the operator's process, and returns the code and the body of its answer.
func (s *stage) ask(query string) (code int, body string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.metrics+"/debug/roperator/explain?"+query, nil)
	require.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return answer.StatusCode, string(raw)
}

// answer returns the answer to a question that must be answered.
func (s *stage) answer(query string) string {
	s.t.Helper()
	code, body := s.ask(query)
	require.Equal(s.t, http.StatusOK, code, body)
	return body
}

func TestProcess(t *testing.T) {
	s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
	s.begin(object{"text": "hello"})
	for query, want := range map[string]struct {
		reason string
		code   int
		body   string
	}{
		"":                                   {"which parent?", http.StatusBadRequest, "name: missing; write ?namespace=NAMESPACE&name=NAME\n"},
		"operator=others&name=blog":          {"it is another program's", http.StatusBadRequest, `operator: there is none of the name "others"; there are sites` + "\n"},
		"name=none&namespace=" + s.Namespace: {"there is no such parent", http.StatusOK, `{"from":"HOST","leading":true,"held":false,"running":false,"queued":false}`},
		"operator=sites&name=blog&namespace=" + s.Namespace: {"it is settled", http.StatusOK, `{"from":"HOST","leading":true,"held":true,"running":false,"queued":false}`},
	} {
		code, body := s.ask(query)
		require.Equal(t, want.code, code, want.reason)
		require.Equal(t, want.body, s.normal(body), want.reason)
	}
}

// TestProcessBesidePasses asks a process while its passes change all that it is asked for.
func TestProcessBesidePasses(t *testing.T) {
	s := newStage(t, config.Operator{}, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if said := text(req); len(said)%3 == 0 {
			return nil, fmt.Errorf("%q has a bad length", said)
		}
		return &handler.SyncResponse{Children: []any{configMap("blog", text(req)), handler.When(configMap("later", "x"), false)}}, nil
	}))
	s.begin(object{"text": "hello"})
	ended := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if err := s.heard("name=blog&namespace=" + s.Namespace); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	said := ""
	for range 40 {
		said += "x"
		s.patch("user", "sites", "blog", fmt.Sprintf(`{"spec":{"text":%q}}`, said))
	}
	close(ended)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// heard asks the process, and says whether the answer is one.
func (s *stage) heard(query string) error {
	answer, err := http.Get(s.metrics + "/debug/roperator/explain?" + query)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var known engine.Process
	if err := json.NewDecoder(answer.Body).Decode(&known); err != nil {
		return err
	}
	if !known.Held {
		return fmt.Errorf("the parent is held: %+v", known)
	}
	return nil
}

// TestReader explains as somebody who may read, and nothing else.
func TestReader(t *testing.T) {
	s := newStage(t, webConfig(), web())
	s.begin(object{"text": "hello"})
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	read := []string{"get", "list"}
	_, err = client.RbacV1().Roles(s.Namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"explain.example.com"}, Resources: []string{"sites"}, Verbs: read},
			{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: read},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: read},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().RoleBindings(s.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader-" + s.Namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	explainAs := func(user string) (int, string, string) {
		rc := cluster.RESTConfig()
		rc.Impersonate = rest.ImpersonationConfig{UserName: user}
		var stdout, stderr bytes.Buffer
		code := runner.Program{Operators: []runner.Spec{{Config: s.config, Handler: s.handler}}, Options: runner.Options{RESTConfig: rc, Logger: slog.New(slog.DiscardHandler)}}.
			Execute(t.Context(), []string{"explain", s.Namespace + "/blog"}, &stdout, &stderr)
		return code, s.normal(stdout.String()), s.normal(stderr.String())
	}
	code, out, wrong := explainAs("reader-" + s.Namespace)
	require.Zero(t, code, wrong)
	require.Contains(t, out, "Site NAMESPACE/blog: not ready")
	require.Contains(t, out, "what the running process knows is not here: list Pods in any namespace: pods is forbidden")

	code, out, wrong = explainAs("nobody-" + s.Namespace)
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, wrong, "explain: Site NAMESPACE/blog: read: ")
	require.Contains(t, wrong, `add the rule {apiGroups: ["explain.example.com"], resources: ["sites"], verbs: ["get"]}`)

	rules := []rbacv1.PolicyRule{{APIGroups: []string{"explain.example.com"}, Resources: []string{"sites"}, Verbs: read}, {APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: read}}
	_, err = client.RbacV1().Roles(s.Namespace).Update(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: rules}, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		code, _, wrong = explainAs("reader-" + s.Namespace)
		return code == 1
	}, patience, 200*time.Millisecond)
	require.Contains(t, wrong, k8s.Secret.String(), "the children of a type that can't be read aren't missing")
}
