package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTimeout  = time.Minute // of one process; a few seconds are usual
	startAttempts = 3           // when another process takes a port that was free a moment ago
	pollInterval  = 100 * time.Millisecond
)

// A cluster is the local control plane and its one node.
type cluster struct {
	keeper *keeper
	dir    string
	bin    map[string]string // name -> path
	screen *screen

	ca     *authority
	server string // the API server's URL
	window string // where the operator serves its window; empty: nowhere
	admin  string // path of a kubeconfig that may do everything
	config *rest.Config
}

// findBinaries returns the paths of all programs, or an error that names the
// missing ones.
func findBinaries(opts options) (map[string]string, error) {
	if opts.assets == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS isn't set: start the demo by `make demo`, which builds what it needs")
	}
	paths := map[string]string{"echoserver": opts.operator}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		paths[name] = filepath.Join(opts.assets, name)
	}
	var missing []string
	for name, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if info, err := os.Stat(abs); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, abs)
		}
		paths[name] = abs
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("missing: %s\nunset KUBEBUILDER_ASSETS to have `make controlplane` get all of them",
			strings.Join(missing, ", "))
	}
	return paths, nil
}

// startServers starts etcd and kube-apiserver, and returns when that is ready.
func (c *cluster) startServers(ctx context.Context) error {
	var err error
	if c.ca, err = newAuthority(c.dir); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "service-accounts"} {
		if err := c.ca.issue(name, name); err != nil {
			return err
		}
	}
	var etcd string
	err = c.withFreePort(ctx, "etcd", func(port string) error {
		etcd = "https://127.0.0.1:" + port
		return c.keeper.start("etcd", c.bin["etcd"],
			"--data-dir="+filepath.Join(c.dir, "etcd"),
			"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls=http://127.0.0.1:0",
			"--trusted-ca-file="+c.ca.path("ca.crt"), "--client-cert-auth",
			"--cert-file="+c.ca.path("etcd.crt"), "--key-file="+c.ca.path("etcd.key"),
			"--unsafe-no-fsync", // the data is thrown away anyway
		)
	}, func(ctx context.Context) bool { return c.accepts(ctx, etcd) })
	if err != nil {
		return err
	}
	return c.withFreePort(ctx, "kube-apiserver", func(port string) error {
		c.server = "https://127.0.0.1:" + port
		if err := c.connect(); err != nil {
			return err
		}
		return c.startAPIServer(etcd, port)
	}, c.apiServerReady)
}

func (c *cluster) startAPIServer(etcd, port string) error {
	return c.keeper.start("kube-apiserver", c.bin["kube-apiserver"],
		"--etcd-servers="+etcd, "--etcd-cafile="+c.ca.path("ca.crt"),
		"--etcd-certfile="+c.ca.path("kube-apiserver.crt"), "--etcd-keyfile="+c.ca.path("kube-apiserver.key"),
		"--bind-address=127.0.0.1", "--secure-port="+port, "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir="+c.dir, "--client-ca-file="+c.ca.path("ca.crt"),
		"--tls-cert-file="+c.ca.path("kube-apiserver.crt"), "--tls-private-key-file="+c.ca.path("kube-apiserver.key"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer="+c.server,
		"--service-account-key-file="+c.ca.path("service-accounts.crt"),
		"--service-account-signing-key-file="+c.ca.path("service-accounts.key"),
	)
}

// connect sets up the administrator's kubeconfig and client.
func (c *cluster) connect() error {
	var err error
	if c.admin, err = c.ca.kubeconfig(c.server, "admin", "admin", "system:masters"); err != nil {
		return err
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.admin); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	c.config.QPS = -1
	return nil
}

// startControllers starts what makes the objects live: controllers, the
// scheduler and the kubelet's stand-in.
func (c *cluster) startControllers() error {
	manager, err := c.ca.kubeconfig(c.server, "kube-controller-manager", "system:kube-controller-manager")
	if err != nil {
		return err
	}
	err = c.keeper.start("kube-controller-manager", c.bin["kube-controller-manager"],
		"--kubeconfig="+manager, "--controllers=*,-nodeipam,-node-route-controller,-cloud-node-lifecycle-controller",
		"--use-service-account-credentials", "--service-account-private-key-file="+c.ca.path("service-accounts.key"),
		"--root-ca-file="+c.ca.path("ca.crt"), "--leader-elect=false", "--secure-port=0",
		"--concurrent-gc-syncs=2", "--kube-api-qps=500", "--kube-api-burst=1000",
	)
	if err != nil {
		return err
	}
	scheduler, err := c.ca.kubeconfig(c.server, "kube-scheduler", "system:kube-scheduler")
	if err != nil {
		return err
	}
	err = c.keeper.start("kube-scheduler", c.bin["kube-scheduler"],
		"--kubeconfig="+scheduler, "--leader-elect=false", "--secure-port=0")
	if err != nil {
		return err
	}
	return c.startKubelet()
}

// startOperator starts the operator with a kubeconfig of its own.
func (c *cluster) startOperator() error {
	config, err := c.ca.kubeconfig(c.server, "echoserver", "echoserver-operator", "system:masters")
	if err != nil {
		return err
	}
	// With its Lease where a Deployment would have it, so that run --dev finds it.
	args := []string{"--kubeconfig=" + config, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect", "--leader-elect-resource-namespace=" + operatorNamespace}
	if c.window != "" {
		args = append(args, "--window-bind-address="+c.window)
	}
	return c.keeper.start("echoserver", c.bin["echoserver"], args...)
}

// withFreePort starts a process that listens on a free port and waits until it
// is ready, with another port if that one was taken meanwhile.
func (c *cluster) withFreePort(ctx context.Context, name string, start func(port string) error, ready func(context.Context) bool) error {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = start(port)
		if err == nil {
			err = c.await(ctx, name+" is ready", ready)
		}
		if err == nil || attempt == startAttempts || !strings.Contains(c.tail(name), "address already in use") {
			return err
		}
		if died := (*processError)(nil); !errors.As(err, &died) || died.name != name {
			return err
		}
	}
}

// await returns when the condition is met, and an error if it isn't in time or
// a process has ended.
func (c *cluster) await(ctx context.Context, what string, met func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if err := c.keeper.died(); err != nil {
			return err
		}
		if met(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited until %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (c *cluster) accepts(ctx context.Context, url string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "https://"))
	return err == nil && conn.Close() == nil
}

func (c *cluster) apiServerReady(ctx context.Context) bool {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return false
	}
	_, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err == nil
}

// freePort returns a loopback port that nobody listens on right now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// tail returns the last lines of a process' log.
func (c *cluster) tail(name string) string {
	const lines = 15
	data, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
