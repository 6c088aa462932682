package rotation

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var parentType = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}

// The names of the files in a folder.
const caFile, tokenFile, certFile, keyFile = "ca.crt", "token", "tls.crt", "tls.key"

// A subject is an operator that runs through the whole test with one folder of
// credentials, in a namespace of its own name.
type subject struct {
	name    string
	stage   *stage
	folder  *folder
	byCert  bool              // it authenticates by a client certificate, else by a token
	account int               // the number of the ServiceAccount of its token
	next    map[string][]byte // the files that renew has made
	runner  *runner.Runner

	unreached  atomic.Int64 // requests without an answer
	distrusted atomic.Int64 // of these: the API server's certificate was of another authority
	refused    atomic.Int64 // requests that were answered 401
}

// A source makes the configuration of an operator from the files in a folder.
type source func(t *testing.T, host string, f *folder) *rest.Config

// fromFiles names the files in a rest.Config.
func fromFiles(_ *testing.T, host string, f *folder) *rest.Config {
	return &rest.Config{Host: host, BearerTokenFile: f.path(tokenFile), TLSClientConfig: rest.TLSClientConfig{CAFile: f.path(caFile)}}
}

// fromPod makes what rest.InClusterConfig makes: it holds the token, too.
func fromPod(t *testing.T, host string, f *folder) *rest.Config {
	t.Helper()
	cfg := fromFiles(t, host, f)
	cfg.BearerToken = string(f.files[tokenFile])
	return cfg
}

// fromKubeconfig names the files in a kubeconfig.
func fromKubeconfig(t *testing.T, host string, f *folder) *rest.Config {
	t.Helper()
	const name = "rotation"
	user := &clientcmdapi.AuthInfo{TokenFile: f.path(tokenFile)}
	if _, ok := f.files[certFile]; ok {
		user = &clientcmdapi.AuthInfo{ClientCertificate: f.path(certFile), ClientKey: f.path(keyFile)}
	}
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: host, CertificateAuthority: f.path(caFile)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, f.path("kubeconfig")))
	cfg, err := client.LoadRESTConfig(f.path("kubeconfig"), "")
	require.NoError(t, err)
	return cfg
}

// start runs an operator until the test ends.
func (s *stage) start(t *testing.T, name string, from source, byCert, volume bool, election *runner.LeaderElection) *subject {
	t.Helper()
	s.namespace(t, name)
	o := &subject{name: name, stage: s, folder: newFolder(t, volume), byCert: byCert}
	o.renew(t)
	o.folder.put(o.next)
	cfg := from(t, s.plane.Config().Host, o.folder)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &witness{next, o} })
	op := config.Operator{
		Name: name, Parent: parentType, Namespaces: []string{name}, MaxErrorBackoff: time.Second,
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": req.Parent.Name()},
		}}}, nil
	})
	var err error
	o.runner, err = runner.New(op, h, runner.Options{RESTConfig: cfg, Logger: slog.New(slog.DiscardHandler), LeaderElection: election})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.runner.Start(ctx) }() // until cancel
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended, "%s runs to the end without a restart", name)
	})
	return o
}

// A witness sees how a subject's requests end.
type witness struct {
	next    http.RoundTripper
	subject *subject
}

func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		w.subject.unreached.Add(1)
		if strings.Contains(err.Error(), "x509: ") {
			w.subject.distrusted.Add(1)
		}
	} else if resp.StatusCode == http.StatusUnauthorized {
		w.subject.refused.Add(1)
	}
	return resp, err
}

// renew makes files for the API server as it is or will be, with credentials that it
// hasn't seen before.
func (o *subject) renew(t *testing.T) {
	t.Helper()
	o.next = map[string][]byte{caFile: o.stage.serving.PEM}
	if o.byCert {
		o.next[certFile], o.next[keyFile] = o.stage.clients.Client(t)
		return
	}
	o.account++
	o.next[tokenFile] = o.stage.token(t, o.name, fmt.Sprint("account-", o.account))
}

// revoke makes the token of a ServiceAccount invalid, which it has by its number. The
// API server trusts old client certificates no more as soon as it has another
// authority for them.
func (o *subject) revoke(t *testing.T, account int) {
	t.Helper()
	if o.byCert {
		return
	}
	require.NoError(t, o.stage.admin.CoreV1().ServiceAccounts(o.name).Delete(t.Context(), fmt.Sprint("account-", account), metav1.DeleteOptions{}))
}

// old returns what the folder says now, as an attacker might keep it.
func (o *subject) old() rest.Config {
	if o.byCert {
		return rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: o.folder.files[certFile], KeyData: o.folder.files[keyFile]}}
	}
	return rest.Config{BearerToken: string(o.folder.files[tokenFile])}
}

// serves creates a parent, and waits until the operator serves it.
func (o *subject) serves(t *testing.T, parent string) {
	t.Helper()
	o.stage.createParent(t, o.name, parent)
	o.stage.serves(t, o.name, parent)
}

// An act is what one operator goes through, among others at the same time.
type act func(t *testing.T, o *subject)

func together(t *testing.T, name string, subjects []*subject, do act) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, o := range subjects {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				do(t, o)
			})
		}
	})
}

// Operators with credentials of every kind go through the same: they are revoked
// while the API server runs, they can't be read while it restarts, and it comes back
// with another authority.
func TestRotation(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server three times")
	}
	s := newStage(t)
	files := s.start(t, "files", fromFiles, false, false, nil)
	pod := s.start(t, "pod", fromPod, false, true, nil)
	kubeconfig := s.start(t, "kubeconfig", fromKubeconfig, false, false, nil)
	cert := s.start(t, "cert", fromKubeconfig, true, false, nil)
	volume := s.start(t, "cert-volume", fromKubeconfig, true, true, nil)
	// Where the machine is slow, the API server is away for longer than a lease's usual
	// deadline.
	leader := s.start(t, "leader", fromPod, false, true, &runner.LeaderElection{
		Namespace: "leader", LeaseDuration: 5 * time.Minute, RenewDeadline: 4 * time.Minute,
	})
	all := []*subject{files, pod, kubeconfig, cert, volume, leader}
	together(t, "At the start", all, func(t *testing.T, o *subject) {
		t.Helper()
		o.serves(t, "first")
	})

	// The connections live on. Each request on them is answered 401 until the files are
	// replaced; those of the pod are replaced before, as the kubelet does it.
	s.replaceClients(t)
	together(t, "Revoked", all, func(t *testing.T, o *subject) {
		t.Helper()
		old, account := o.old(), o.account
		o.renew(t)
		if o == pod {
			o.folder.put(o.next)
		}
		o.revoke(t, account)
		s.refuses(t, old)
		s.createParent(t, o.name, "revoked")
		if o != pod {
			eventually(t, "the operator is refused", func() bool { return o.refused.Load() > 0 })
			o.folder.put(o.next)
		}
		s.serves(t, o.name, "revoked")
	})

	// What the files held before stays in use, for new connections too, but for client certificates, which client-go
	// reads for each connection.
	files.folder.spoil("missing")
	kubeconfig.folder.spoil("empty")
	s.plane.Server.Kill()
	eventually(t, "requests fail", func() bool {
		return files.unreached.Load() > 0 && kubeconfig.unreached.Load() > 0
	})
	s.startServer(t)
	together(t, "Spoiled files", all, func(t *testing.T, o *subject) {
		t.Helper()
		o.serves(t, "spoiled")
	})

	// The API server comes back with a certificate of another authority, and accepts no
	// credentials from before. Some operators have the new files before it is back,
	// others only after they have tried the old ones for a while.
	s.replaceServing(t)
	s.replaceClients(t)
	together(t, "Renewed", all, func(t *testing.T, o *subject) {
		t.Helper()
		account := o.account
		o.renew(t)
		o.revoke(t, account)
		if o == pod || o == volume {
			o.folder.put(o.next)
		}
	})
	s.plane.Server.Kill()
	s.startServer(t)
	together(t, "Another authority", all, func(t *testing.T, o *subject) {
		t.Helper()
		s.createParent(t, o.name, "another")
		if o != pod && o != volume {
			eventually(t, "the API server is distrusted for a while", func() bool { return o.distrusted.Load() > 8 })
			o.folder.put(o.next)
		}
		s.serves(t, o.name, "another")
	})
	together(t, "At the end", all, func(t *testing.T, o *subject) {
		t.Helper()
		o.serves(t, "last")
		eventually(t, "each watch is back", func() bool { return o.runner.Ready() == nil })
	})
}
