// Package plane starts an etcd and a kube-apiserver that a test may kill, pause
// and start again at will. testkit's Cluster is for tests that need no more
// than an API server.
package plane

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options are what a Plane needs.
type Options struct {
	// Dir is for keys, logs and etcd's data. It must exist, and isn't removed.
	Dir string
	// Users are administrators besides "admin"; their tokens are their names.
	Users []string
	// ServerFlags are further flags of kube-apiserver, as in "--name=value".
	ServerFlags []string
}

// admin is the user that the Plane itself is.
const admin = "admin"

// A Plane is a control plane on the loopback interface. Its methods aren't
// meant for concurrent use, Config aside.
type Plane struct {
	// ServerPort is where StartServer lets kube-apiserver listen. It may be
	// changed while none runs.
	ServerPort string
	// Etcd, Server and ControllerManager are the processes started last; nil
	// before.
	Etcd, Server, ControllerManager *Process

	opts    Options
	etcdURL string // of the etcd started last
}

// New prepares a Plane. Nothing runs yet.
func New(opts Options) (*Plane, error) {
	p := &Plane{opts: opts}
	var err error
	if p.ServerPort, err = FreePort(); err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(p.path("sa.key"), text, 0o600); err != nil {
		return nil, err
	}
	var tokens bytes.Buffer
	for _, user := range append([]string{admin}, opts.Users...) {
		fmt.Fprintf(&tokens, "%s,%[1]s,%[1]s,\"system:masters\"\n", user)
	}
	return p, os.WriteFile(p.path("tokens.csv"), tokens.Bytes(), 0o600)
}

// FreePort returns a port that nobody listened on a moment ago. It is none of those that
// systems give to outgoing connections, which begin at 32768 or above unless somebody has
// configured others: whoever listens on it may end and listen again.
func FreePort() (string, error) {
	const lowest, ports = 20000, 12000
	var err error
	for range 100 {
		port := strconv.Itoa(lowest + mathrand.IntN(ports))
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}

// FreeAddress returns an address of loopback with a FreePort.
func FreeAddress(t *testing.T) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatalf("a free port: %v", err)
	}
	return "127.0.0.1:" + port
}

func (p *Plane) path(name string) string { return filepath.Join(p.opts.Dir, name) }

// Start starts etcd and kube-apiserver, and returns when both are ready.
func (p *Plane) Start(ctx context.Context) error {
	if err := p.StartEtcd(ctx); err != nil {
		return err
	}
	return p.StartServer(ctx)
}

// Stop kills whatever runs.
func (p *Plane) Stop() {
	p.ControllerManager.Kill()
	p.Server.Kill()
	p.Etcd.Kill()
}

// StartEtcd starts etcd, with the data of the one before, and returns when it takes
// requests.
func (p *Plane) StartEtcd(ctx context.Context) error {
	return insist(ctx, func(ctx context.Context) (err error) {
		if p.Server == nil { // which is told the port when it starts
			port, err := FreePort()
			if err != nil {
				return err
			}
			p.etcdURL = "http://127.0.0.1:" + port
		}
		p.Etcd, err = StartProgram(p.path("etcd.log"), "etcd", "--data-dir="+p.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls="+p.etcdURL, "--advertise-client-urls="+p.etcdURL, "--listen-peer-urls=http://127.0.0.1:0")
		if err != nil {
			return err
		}
		return p.Etcd.await(ctx, "etcd", func() bool {
			_, err := call(ctx, http.DefaultClient, http.MethodGet, p.etcdURL+"/health", "")
			return err == nil
		})
	})
}

// StartServer starts kube-apiserver, and returns when it is ready.
func (p *Plane) StartServer(ctx context.Context) error {
	key := p.path("sa.key")
	client, err := rest.HTTPClientFor(p.Config())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return insist(ctx, func(ctx context.Context) (err error) {
		p.Server, err = StartProgram(p.path("kube-apiserver.log"), "kube-apiserver", append([]string{
			"--etcd-servers=" + p.etcdURL, "--bind-address=127.0.0.1", "--secure-port=" + p.ServerPort, "--cert-dir=" + p.opts.Dir,
			"--service-account-issuer=https://127.0.0.1", "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
			"--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
			"--endpoint-reconciler-type=none", "--token-auth-file=" + p.path("tokens.csv"),
		}, p.opts.ServerFlags...)...)
		if err != nil {
			return err
		}
		return p.Server.await(ctx, "kube-apiserver", func() bool {
			answer, err := call(ctx, client, http.MethodGet, p.Config().Host+"/readyz", "")
			return err == nil && string(answer) == "ok"
		})
	})
}

// patience only bounds a hang: a program is ready in seconds where the machine is idle.
const patience = 2 * time.Minute

// insist starts a program until it ends otherwise than since its port was taken: FreePort
// may have given it to two.
func insist(ctx context.Context, start func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := start(ctx)
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "address already in use") {
		err = start(ctx)
	}
	return err
}

// StartControllerManager starts the garbage collector of a
// kube-controller-manager. It doesn't wait.
func (p *Plane) StartControllerManager() (err error) {
	file := p.path("kube-controller-manager.kubeconfig")
	if err := WriteKubeconfig(file, p.Config()); err != nil {
		return err
	}
	p.ControllerManager, err = StartProgram(p.path("kube-controller-manager.log"), "kube-controller-manager",
		"--kubeconfig="+file, "--controllers=garbage-collector-controller", "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000")
	return err
}

// Config is an administrator's, with connections of its own.
func (p *Plane) Config() *rest.Config { return p.ConfigFor(admin) }

// ConfigFor is that of one of the Users.
func (p *Plane) ConfigFor(user string) *rest.Config {
	return &rest.Config{
		Host: "https://127.0.0.1:" + p.ServerPort, BearerToken: user, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
}

// WriteKubeconfig writes the file of a kubeconfig that says what cfg does about
// host and token.
func WriteKubeconfig(file string, cfg *rest.Config) error {
	const name = "plane"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, InsecureSkipTLSVerify: cfg.Insecure}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file)
}

// Compact makes etcd forget what was before now.
func (p *Plane) Compact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	text, err := call(ctx, http.DefaultClient, http.MethodPost, p.etcdURL+"/v3/kv/range", `{"key":"AA=="}`)
	if err != nil {
		return err
	}
	var answer struct{ Header struct{ Revision string } }
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("etcd: range: %w", err)
	}
	_, err = call(ctx, http.DefaultClient, http.MethodPost, p.etcdURL+"/v3/kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, answer.Header.Revision))
	return err
}

func call(ctx context.Context, client *http.Client, method, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	return text, err
}
