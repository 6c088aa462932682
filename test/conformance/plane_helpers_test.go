package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// A plane is a control plane of a scenario's own, whose processes it may end
// and start again.
type plane struct {
	t          *testing.T
	dir        string
	etcdURL    string
	serverPort string
	etcd, api  *guarded
}

// A guarded process dies with the test, however that ends: a shell kills it
// when the pipe to this process is closed.
type guarded struct {
	name string
	cmd  *exec.Cmd
	pipe io.Closer
	log  string
	done chan struct{}
}

const guardScript = `exec 3<&0; "$@" </dev/null 3<&- & pid=$!; { cat <&3 >/dev/null; kill -KILL $pid 2>/dev/null; } & wait $pid`

func guard(t *testing.T, log, program string, args ...string) *guarded {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), program)
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("needs etcd and kube-apiserver to start of its own: %v", err)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer out.Close()
	g := &guarded{name: program, cmd: exec.Command("bash", append([]string{"-c", guardScript, "guard", binary}, args...)...), log: log, done: make(chan struct{})}
	g.cmd.Stdout, g.cmd.Stderr = out, out
	g.pipe, err = g.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, g.cmd.Start())
	go func() { // ends when the process does
		defer close(g.done)
		_ = g.cmd.Wait() // it is killed
	}()
	return g
}

// kill kills the process, and returns when it has ended.
func (g *guarded) kill() {
	_ = g.pipe.Close() // ends the process, whichever way
	<-g.done
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return port
}

const planeToken = "conformance"

// newPlane starts etcd and kube-apiserver and installs the parents' CRDs.
func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{t: t, dir: t.TempDir(), etcdURL: "http://127.0.0.1:" + freePort(t), serverPort: freePort(t)}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p.write("sa.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	p.write("tokens.csv", []byte(planeToken+`,admin,admin,"system:masters"`+"\n"))
	t.Cleanup(func() {
		p.api.kill()
		p.etcd.kill()
		if t.Failed() {
			t.Logf("kube-apiserver said last:\n%s", p.tail("kube-apiserver.log"))
		}
	})
	p.startEtcd()
	p.startServer()
	crds, err := envtest.InstallCRDs(p.config(), envtest.CRDInstallOptions{Paths: []string{"testdata/crds.yaml"}, ErrorIfPathMissing: true})
	require.NoError(t, err)
	require.IsType(t, []*apiextensionsv1.CustomResourceDefinition{}, crds)
	return p
}

func (p *plane) write(name string, text []byte) {
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), text, 0o600))
}

func (p *plane) tail(name string) []byte {
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	require.NoError(p.t, err)
	return text[max(0, len(text)-2000):]
}

func (p *plane) startEtcd() {
	p.t.Helper()
	p.etcd = guard(p.t, filepath.Join(p.dir, "etcd.log"), "etcd", "--data-dir="+filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+p.etcdURL, "--advertise-client-urls="+p.etcdURL, "--listen-peer-urls=http://127.0.0.1:0")
}

// startServer returns when kube-apiserver is ready.
func (p *plane) startServer() {
	p.t.Helper()
	key := filepath.Join(p.dir, "sa.key")
	p.api = guard(p.t, filepath.Join(p.dir, "kube-apiserver.log"), "kube-apiserver",
		"--etcd-servers="+p.etcdURL, "--bind-address=127.0.0.1", "--secure-port="+p.serverPort, "--cert-dir="+p.dir,
		"--service-account-issuer=https://127.0.0.1", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none", "--token-auth-file="+filepath.Join(p.dir, "tokens.csv"))
	client, err := rest.HTTPClientFor(p.config())
	require.NoError(p.t, err)
	eventually(p.t, "kube-apiserver is ready", func() bool {
		select {
		case <-p.api.done:
			require.Fail(p.t, "kube-apiserver has ended", "%s", p.tail("kube-apiserver.log"))
		default:
		}
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.config().Host+"/readyz", http.NoBody)
		require.NoError(p.t, err)
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// config is an administrator's, with connections of its own.
func (p *plane) config() *rest.Config {
	return &rest.Config{
		Host: "https://127.0.0.1:" + p.serverPort, BearerToken: planeToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
}

// compact makes etcd forget what was before now.
func (p *plane) compact() {
	p.t.Helper()
	post := func(path, body string) string {
		ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.etcdURL+path, bytes.NewBufferString(body))
		require.NoError(p.t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(p.t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(p.t, err)
		require.Equal(p.t, http.StatusOK, resp.StatusCode, "%s", text)
		return string(text)
	}
	var answer struct{ Header struct{ Revision string } }
	requireJSON(p.t, post("/v3/kv/range", `{"key":"AA=="}`), &answer)
	post("/v3/kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, answer.Header.Revision))
}
