// Package plane starts control planes for tests and for the demo: an etcd and a kube-apiserver, and
// what may come on top of them. It is the one place in this module that does. A test may kill, pause
// and start each program again at will. testkit's Cluster, which is a Plane, is for tests that need
// no more than an API server.
//
// A Plane starts no goroutine besides those of its processes (see childprocess). It may import
// nothing of this module but other packages of internal/testing.
package plane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/testing/authority"
)

// Options are what a Plane needs.
type Options struct {
	// Dir is for keys, logs and etcd's data. It must exist. It is removed if this process ends
	// before Stop or Leave.
	Dir string
	// Users are administrators in addition to Admin.
	Users []string
	// ServerFlags are flags of kube-apiserver, without the leading dashes, that replace the
	// defaults.
	ServerFlags map[string]string
	// StartTimeout bounds the start of each program. 0: 2 minutes. A few seconds are usual.
	StartTimeout time.Duration
}

// A Plane is a control plane on the loopback interface. Its methods aren't
// meant for concurrent use, Config and ConfigFor aside.
type Plane struct {
	// ServerPort is where StartServer lets kube-apiserver listen. It may be
	// changed while none runs.
	ServerPort string
	// Etcd, Server and ControllerManager are the processes started last; nil
	// before.
	Etcd, Server, ControllerManager *Process

	opts    Options
	etcdURL string // of the etcd started last
	counted bool   // see countStart
	ca      *authority.Authority
	tokens  map[string]string // by user
}

// New prepares a Plane. Nothing runs yet.
func New(opts Options) (*Plane, error) {
	if opts.StartTimeout == 0 {
		opts.StartTimeout = 2 * time.Minute
	}
	p := &Plane{opts: opts}
	var err error
	if p.ServerPort, err = FreePort(); err != nil {
		return nil, fmt.Errorf("control plane: a free port: %w", err)
	}
	if err := p.writeKeys(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	return p, nil
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
	for _, process := range p.processes() {
		process.Kill()
	}
}

// Leave lets everything, and more processes, run on when this process ends, and returns the shell
// command that ends it and removes Dir.
func (p *Plane) Leave(more ...*Process) string {
	command := []string{"kill", "-9"} // what ends slowly would write to Dir still
	for _, process := range append(more, p.processes()...) {
		process.Release()
		command = append(command, strconv.Itoa(process.PID()))
	}
	return strings.Join(command, " ") + "; rm -rf " + quote(p.opts.Dir)
}

// processes are those that were started and haven't ended.
func (p *Plane) processes() []*Process {
	return slices.DeleteFunc([]*Process{p.ControllerManager, p.Server, p.Etcd}, func(process *Process) bool {
		return process == nil || process.Ended()
	})
}

// quote makes one word for the shell out of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// StartEtcd starts etcd, with the data of the one before, and returns when it takes
// requests. All starts of a control plane begin here.
func (p *Plane) StartEtcd(ctx context.Context) error {
	binary, err := Binary("etcd")
	if err != nil {
		return err
	}
	if err := p.countStart(); err != nil {
		return err
	}
	return p.insist(ctx, func(ctx context.Context) (err error) {
		if p.Server == nil { // which is told the port when it starts
			port, err := FreePort()
			if err != nil {
				return err
			}
			p.etcdURL = "http://127.0.0.1:" + port
		}
		// What is lost in a crash is lost with the test.
		p.Etcd, err = StartBinary(p.path("etcd.log"), binary, "--data-dir="+p.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls="+p.etcdURL, "--advertise-client-urls="+p.etcdURL, "--listen-peer-urls=http://127.0.0.1:0")
		if err != nil {
			return err
		}
		return p.Etcd.await(ctx, func() bool {
			_, err := call(ctx, http.DefaultClient, http.MethodGet, p.etcdURL+"/health", "")
			return err == nil
		})
	})
}

// countStart appends a line with the name of this program to the file that the environment
// variable ROPERATOR_COUNT_STARTS names, at the first start of the Plane.
func (p *Plane) countStart() error {
	name := os.Getenv("ROPERATOR_COUNT_STARTS")
	if name == "" || p.counted {
		return nil
	}
	p.counted = true
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("ROPERATOR_COUNT_STARTS: %w", err)
	}
	_, err = file.WriteString(filepath.Base(os.Args[0]) + "\n")
	return errors.Join(err, file.Close())
}

// StartServer starts kube-apiserver, and returns when it is ready.
func (p *Plane) StartServer(ctx context.Context) error {
	client, err := rest.HTTPClientFor(p.Config())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return p.insist(ctx, func(ctx context.Context) (err error) {
		p.Server, err = StartProgram(p.path("kube-apiserver.log"), "kube-apiserver", p.serverFlags()...)
		if err != nil {
			return err
		}
		return p.Server.await(ctx, func() bool {
			answer, err := call(ctx, client, http.MethodGet, p.Config().Host+"/readyz", "")
			return err == nil && string(answer) == "ok"
		})
	})
}

func (p *Plane) serverFlags() (out []string) {
	flags := map[string]string{
		"etcd-servers": p.etcdURL, "bind-address": "127.0.0.1", "secure-port": p.ServerPort, "cert-dir": p.opts.Dir,
		"tls-cert-file": p.path("serving.crt"), "tls-private-key-file": p.path("serving.key"), "token-auth-file": p.path("tokens.csv"),
		"service-account-issuer": "https://127.0.0.1", "service-account-key-file": p.path("sa.key"), "service-account-signing-key-file": p.path("sa.key"),
		"service-cluster-ip-range": "10.0.0.0/16", "authorization-mode": "RBAC", "disable-admission-plugins": "ServiceAccount", "allow-privileged": "true",
		"endpoint-reconciler-type":  "none", // it can't publish a loopback address, and retries
		"delete-collection-workers": "16", "profiling": "false",
	}
	for name, value := range p.opts.ServerFlags {
		flags[strings.TrimLeft(name, "-")] = value
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		out = append(out, "--"+name+"="+flags[name])
	}
	return out
}

// insist starts a program until it ends otherwise than since its port was taken: FreePort
// may have given it to two.
func (p *Plane) insist(ctx context.Context, start func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.StartTimeout)
	defer cancel()
	err := start(ctx)
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "address already in use") {
		err = start(ctx)
	}
	return err
}

// GarbageCollector is the controller that deletes objects whose owners have gone.
const GarbageCollector = "garbage-collector-controller"

// StartControllerManager starts a kube-controller-manager with these controllers; with none, with
// all that it starts by default: since Kubernetes 1.31 those for clouds do nothing, and 1.37 no longer
// knows their names. It doesn't wait.
func (p *Plane) StartControllerManager(controllers ...string) error {
	if len(controllers) == 0 {
		controllers = []string{"*"}
	}
	kubeconfig, err := p.Kubeconfig(managerUser, "")
	if err != nil {
		return err
	}
	p.ControllerManager, err = StartProgram(p.path("kube-controller-manager.log"), "kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--controllers="+strings.Join(controllers, ","),
		"--service-account-private-key-file="+p.path("sa.key"), "--root-ca-file="+p.path("ca.crt"),
		"--use-service-account-credentials=true", // a client for each controller, so that none throttles another
		"--kube-api-qps=500", "--kube-api-burst=1000", "--leader-elect=false",
		"--secure-port=0", // nobody asks for its metrics
	)
	return err
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
