package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/testing/kubelet"
	"github.com/roperator/roperator/internal/testing/plane"
)

const (
	startTimeout = time.Minute      // of one program; a few seconds are usual
	stopTimeout  = 30 * time.Second // of the operator
	pollInterval = 100 * time.Millisecond

	demoNamespace = "demo"
	// operatorNamespace is where the operator would be installed.
	operatorNamespace = "echoserver-system"
	operatorUser      = "echoserver-operator"
)

// A cluster is the local control plane, its nodes and the operator.
type cluster struct {
	dir    string
	binary string // of the operator
	screen *screen

	plane    *plane.Plane
	kubelet  *kubelet.Kubelet
	operator *plane.Process
	window   string // where the operator serves its window; empty: nowhere
	admin    string // path of a kubeconfig that may do everything
	config   *rest.Config
}

// newCluster prepares a cluster in a new folder below opts.dir.
func newCluster(opts options, out *screen) (*cluster, error) {
	if err := checkPrograms(opts); err != nil {
		return nil, err
	}
	base, err := filepath.Abs(opts.dir)
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	c := &cluster{binary: opts.operator, screen: out}
	if c.dir, err = os.MkdirTemp(base, "run-"); err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	c.plane, err = plane.New(plane.Options{Dir: c.dir, Users: []string{operatorUser}, StartTimeout: startTimeout})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

// checkPrograms returns an error that names the programs that are missing.
func checkPrograms(opts options) error {
	var errs []error
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		if _, err := plane.Binary(name); err != nil {
			errs = append(errs, err)
		}
	}
	if _, err := exec.LookPath(opts.operator); err != nil {
		errs = append(errs, fmt.Errorf("operator: %w", err))
	}
	return errors.Join(errs...)
}

// startServers starts etcd and kube-apiserver, and returns when that is ready.
func (c *cluster) startServers(ctx context.Context) (err error) {
	if err := c.plane.Start(ctx); err != nil {
		return err
	}
	c.config = c.plane.Config()
	c.admin, err = c.plane.Kubeconfig(plane.Admin, demoNamespace)
	return err
}

// startControllers starts what makes the objects live: controllers, the scheduler and the nodes.
func (c *cluster) startControllers(ctx context.Context) error {
	if err := c.plane.StartControllerManager(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	for _, name := range []string{demoNamespace, operatorNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("namespace: %w", err)
		}
	}
	c.kubelet, err = kubelet.Start(ctx, c.admin)
	return err
}

// startOperator starts the operator with a kubeconfig of its own, whose path it returns.
func (c *cluster) startOperator() (string, error) {
	config, err := c.plane.Kubeconfig(operatorUser, demoNamespace)
	if err != nil {
		return "", err
	}
	// With its Lease where a Deployment would have it, so that run --dev finds it.
	args := []string{"--kubeconfig=" + config, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect", "--leader-elect-resource-namespace=" + operatorNamespace}
	if c.window != "" {
		args = append(args, "--window-bind-address="+c.window)
	}
	c.operator, err = plane.StartBinary(filepath.Join(c.dir, "echoserver.log"), c.binary, args...)
	return config, err
}

// stopOperator asks the operator to end, and returns when it has. An exit code other than 0 is an
// error.
func (c *cluster) stopOperator() error {
	if err := c.operator.Stop(stopTimeout); err != nil {
		return err
	}
	if err := c.operator.Err(); err != nil {
		return fmt.Errorf("operator: stop: %w", err)
	}
	return nil
}

// outside are the processes beside those of the control plane.
func (c *cluster) outside() []*plane.Process {
	out := []*plane.Process{}
	if c.operator != nil {
		out = append(out, c.operator)
	}
	if c.kubelet != nil {
		out = append(out, c.kubelet.Processes()...)
	}
	return out
}

// A processError says that a process has ended which should run.
type processError struct {
	process *plane.Process
	err     error
}

func (e *processError) Error() string { return e.err.Error() }

// died returns a processError if a process has ended.
func (c *cluster) died() error {
	for _, p := range append(c.outside(), c.plane.Etcd, c.plane.Server, c.plane.ControllerManager) {
		if err := p.Exited(); err != nil {
			return &processError{p, err}
		}
	}
	return nil
}

// leave lets everything run on, and returns the command that ends it.
func (c *cluster) leave() (string, error) {
	if err := c.died(); err != nil {
		return "", err
	}
	return c.plane.Leave(c.outside()...), nil
}

// close ends everything, and returns when all processes have ended.
func (c *cluster) close() error {
	for _, p := range c.outside() {
		p.Kill()
	}
	c.plane.Stop()
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	return nil
}

// await returns when the condition is met, and an error if it isn't in time or
// a process has ended.
func (c *cluster) await(ctx context.Context, what string, met func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if err := c.died(); err != nil {
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

// accepts reports whether a server accepts connections at an address.
func accepts(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return err == nil && conn.Close() == nil
}
