package rotation

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/roperator/roperator/internal/testing/authority"
	"github.com/roperator/roperator/internal/testing/plane"
)

// patience only bounds a hang: it is for what takes an idle machine a small
// fraction of it.
const patience = 5 * time.Minute

// promised is how long an operator may take until it works again with the
// credentials that its files hold.
const promised = 90 * time.Second

// A stage is a control plane whose certificate authorities the test replaces. Its
// methods aren't meant for concurrent use while the API server is restarted.
type stage struct {
	dir     string
	plane   *plane.Plane
	admin   *kubernetes.Clientset
	dynamic dynamic.Interface
	serving *authority.Authority // has signed the API server's certificate
	clients *authority.Authority // has signed those of its clients
}

func newStage(t *testing.T) *stage {
	t.Helper()
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if _, err := plane.Binary(program); err != nil {
			if os.Getenv("CI") == "true" {
				require.NoError(t, err)
			}
			t.Skip(err)
		}
	}
	s := &stage{dir: t.TempDir()}
	var err error
	s.plane, err = plane.New(plane.Options{Dir: s.dir, ServerFlags: map[string]string{
		"tls-cert-file": s.path("serving.crt"), "tls-private-key-file": s.path("serving.key"), "client-ca-file": s.path("clients.crt"),
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() && s.plane.Server != nil {
			t.Logf("kube-apiserver said last:\n%s", s.plane.Server.Said())
		}
		s.plane.Stop()
	})
	s.replaceServing(t)
	s.replaceClients(t)
	require.NoError(t, s.plane.StartEtcd(t.Context()))
	s.startServer(t)
	s.admin, err = kubernetes.NewForConfig(s.plane.Config())
	require.NoError(t, err)
	s.dynamic, err = dynamic.NewForConfig(s.plane.Config())
	require.NoError(t, err)
	_, err = envtest.InstallCRDs(s.plane.Config(), envtest.CRDInstallOptions{Paths: []string{"../conformance/testdata/crds.yaml"}, ErrorIfPathMissing: true})
	require.NoError(t, err)
	_, err = s.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) write(t *testing.T, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.path(name), content, 0o600))
}

// replaceServing gives the API server that is started next a certificate of a new
// authority.
func (s *stage) replaceServing(t *testing.T) {
	t.Helper()
	s.serving = authority.New(t, "serving")
	cert, key := s.serving.Server(t)
	s.write(t, "serving.crt", cert)
	s.write(t, "serving.key", key)
}

// replaceClients lets the API server trust clients of a new authority, and no others.
// It notices by itself.
func (s *stage) replaceClients(t *testing.T) {
	t.Helper()
	s.clients = authority.New(t, "clients")
	s.write(t, "clients.crt", s.clients.PEM)
}

// startServer starts kube-apiserver, and returns when it is ready.
func (s *stage) startServer(t *testing.T) {
	t.Helper()
	require.NoError(t, s.plane.StartServer(t.Context()))
}

// token returns a token of a new ServiceAccount, which is called name.
func (s *stage) token(t *testing.T, namespace, name string) []byte {
	t.Helper()
	accounts := s.admin.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return []byte(answer.Status.Token)
}

// refuses waits until the API server doesn't accept credentials any more. It
// remembers for some seconds whom it has accepted.
func (s *stage) refuses(t *testing.T, cfg rest.Config) {
	t.Helper()
	cfg.Host = s.plane.Config().Host
	cfg.Insecure = true
	client, err := rest.HTTPClientFor(&cfg)
	require.NoError(t, err)
	eventually(t, "the old credentials are refused", func() bool {
		defer client.CloseIdleConnections()
		resp, err := client.Get(cfg.Host + "/api")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusUnauthorized
	})
}

func (s *stage) createParent(t *testing.T, namespace, name string) {
	t.Helper()
	parents := s.dynamic.Resource(schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: "parents"}).Namespace(namespace)
	_, err := parents.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// serves waits until the child of a parent is there, and is there again after it was
// deleted: so the watches of both types work, and writes do.
func (s *stage) serves(t *testing.T, namespace, name string) {
	t.Helper()
	start := time.Now()
	maps := s.admin.CoreV1().ConfigMaps(namespace)
	child := func(not string) (uid string) {
		t.Helper()
		require.Eventually(t, func() bool {
			found, err := maps.Get(t.Context(), name, metav1.GetOptions{})
			uid = string(found.GetUID())
			return err == nil && uid != not
		}, promised, 50*time.Millisecond, "the child of "+name)
		return uid
	}
	first := child("")
	t.Logf("%s: the child is there after %v", name, time.Since(start).Round(10*time.Millisecond))
	require.NoError(t, maps.Delete(t.Context(), name, metav1.DeleteOptions{}))
	child(first)
	took := time.Since(start).Round(10 * time.Millisecond)
	require.Less(t, took, promised)
	t.Logf("%s: and was replaced after %v", name, took)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 50*time.Millisecond, what)
}

func (s *stage) namespace(t *testing.T, name string) {
	t.Helper()
	_, err := s.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err, fmt.Sprint("namespace ", name))
}
