package explain

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
)

// Anyone who may create a Pod may give it the label of a program. The API server passes
// on that Pod's redirect. explain must not bring the caller's token to another host, and
// must not send to the API server a request that the Pod has chosen.
func TestRedirectOfAPod(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		location func(other string) string
		want     string
	}{
		"OtherHost": {
			"the token would go to the other host, by plain HTTP",
			func(other string) string { return other + "/x" },
			`redirect (302) to "http://127.0.0.1:`,
		},
		"OtherPath": {
			"a GET of a Service's proxy may change something",
			func(string) string { return "../../../../../../kube-system/services/http:any:80/proxy/shutdown" },
			"redirect (302) to another path of the same host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(*handler.SyncRequest) []any { return nil }))
			s.begin(object{})
			others := &requests{}
			other := httptest.NewServer(others.record(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"from":"sites-0","leading":true,"held":true}`))
			})))
			defer other.Close()

			listener, err := net.Listen("tcp", net.JoinHostPort(hostAddress(t), "0"))
			require.NoError(t, err)
			asked := &requests{}
			pod := &http.Server{Handler: asked.record(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", tc.location(other.URL))
				w.WriteHeader(http.StatusFound)
			}))}
			go func() { _ = pod.Serve(listener) }() // until Close
			defer func() { require.NoError(t, pod.Close()) }()
			createPod(t, s.Namespace, "any", listener.Addr().String(), nil)

			own := &requests{}
			rc := administrator(t, s.Namespace)
			rc.Wrap(own.wrap)
			p := runner.Program{
				Operators: []runner.Spec{{Config: s.config, Handler: s.handler}},
				Options:   runner.Options{RESTConfig: rc, Logger: slog.New(slog.DiscardHandler)},
			}
			var stdout, stderr bytes.Buffer
			p.Execute(t.Context(), []string{"explain", s.Namespace + "/blog", "--process-namespace=" + s.Namespace}, &stdout, &stderr)
			require.NotEmpty(t, asked.paths(), "the Pod was asked")
			require.Empty(t, others.paths(), tc.reason)
			for _, path := range own.paths() {
				require.NotContains(t, path, "kube-system", tc.reason)
			}
			require.Contains(t, stdout.String()+stderr.String(), tc.want, tc.reason)
		})
	}
}

// administrator returns the configuration of a ServiceAccount that may do everything, by
// its token.
func administrator(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	const name = "administrator"
	accounts := client.CoreV1().ServiceAccounts(namespace)
	_, err = accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	binding, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		err := client.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(t.Context()), binding.Name, metav1.DeleteOptions{})
		require.NoError(t, err)
	})
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	rc := rest.AnonymousClientConfig(cluster.RESTConfig())
	require.Nil(t, rc.WrapTransport, "nothing of the testkit's own that would refuse a redirect")
	rc.BearerToken = token.Status.Token
	return rc
}

// requests notes the paths of requests.
type requests struct {
	mu  sync.Mutex
	all []string
}

func (r *requests) note(req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, req.URL.Path)
}

func (r *requests) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all...)
}

// record is for a server.
func (r *requests) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.note(req)
		next.ServeHTTP(w, req)
	})
}

// wrap is for a client.
func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		r.note(req)
		return next.RoundTrip(req)
	})
}
