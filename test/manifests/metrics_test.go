package manifests

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/runner"
)

// account creates a ServiceAccount with a ClusterRole, "" for none, and returns a token of it.
func (s *stage) account(admin kubernetes.Interface, name, role string) (token string) {
	s.t.Helper()
	ctx := s.t.Context()
	_, err := admin.CoreV1().ServiceAccounts(s.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	if role != "" {
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: name}},
		}, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
	answer, err := admin.CoreV1().ServiceAccounts(s.namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return answer.Status.Token
}

// mayGet waits until RBAC lets an account get a path.
func (s *stage) mayGet(admin kubernetes.Interface, account, path string) {
	s.t.Helper()
	s.await("", account+" may get "+path, func() bool {
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(s.t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + s.namespace + ":" + account, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
}

// Protected metrics are for those alone whom RBAC lets get them, with what manifests prints.
func TestProtectedMetrics(t *testing.T) {
	t.Parallel()
	s := newStage(t, false, func(_ string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }, "--arg=--metrics-secure")
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	health := s.namespace + "-health"
	_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: health}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/healthz"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	tokens := map[string]string{
		"scraper": s.account(admin, "scraper", s.namespace+"-operator-metrics-reader"), "other": s.account(admin, "other", health),
		"nobody": s.account(admin, "nobody", ""), "gone": s.account(admin, "gone", s.namespace+"-operator-metrics-reader"),
	}
	s.mayGet(admin, "scraper", "/metrics")
	s.mayGet(admin, "gone", "/metrics")
	s.mayGet(admin, "other", "/healthz")
	require.NoError(t, admin.CoreV1().ServiceAccounts(s.namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{}))

	address := plane.FreeAddress(t)
	s.options = func(o *runner.Options) { o.MetricsAddress, o.MetricsSecure = address, &runner.MetricsSecurity{} }
	stop := s.start(false)
	defer stop()

	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it is self-signed
	}}
	get := func(path, token string) (code int, body string) {
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
		require.Equal(t, 1, resp.ProtoMajor, "HTTP/2 is off")
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	s.await("", "it serves", func() bool { code, _ := get("/metrics", ""); return code != 0 })
	for name, tc := range map[string]struct {
		reason, path, token string
		want                int
	}{
		"None":       {"nobody knows who asks", "/metrics", "", http.StatusUnauthorized},
		"Garbage":    {"the API server knows no such token", "/metrics", "Kanarienvogel", http.StatusUnauthorized},
		"Gone":       {"its account was deleted", "/metrics", tokens["gone"], http.StatusUnauthorized},
		"NoRight":    {"its account has no right", "/metrics", tokens["nobody"], http.StatusForbidden},
		"WrongRight": {"its account may get another path", "/metrics", tokens["other"], http.StatusForbidden},
		"OtherPath":  {"a right is for its path alone", "/debug/roperator/explain", tokens["scraper"], http.StatusForbidden},
		"Right":      {"it is the one that manifests prints a role for", "/metrics", tokens["scraper"], http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := get(tc.path, tc.token)
			require.Equal(t, tc.want, code, "%s: %s: %s", tc.reason, body, s.said())
			require.Equal(t, tc.want == http.StatusOK, len(body) > 1000, body)
		})
	}
	resp, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "without TLS there is nothing")
	for _, token := range append([]string{"Kanarienvogel"}, tokens["scraper"], tokens["nobody"]) {
		require.NotContains(t, s.said(), token)
	}
}
