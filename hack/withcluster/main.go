// Command withcluster runs a command beside one control plane for tests: etcd,
// kube-apiserver with an audit log, and kube-controller-manager.
//
//	go run ./hack/withcluster -crd examples/appstack/crd.yaml go test ./examples/appstack
//
// It installs the CustomResourceDefinitions of each -crd, which is a file or a folder, before
// kube-controller-manager starts: the garbage collector looks for new types only every 30 s,
// and tests would wait for that.
//
// The command gets USE_EXISTING_CLUSTER=true and KUBECONFIG, so that testkit starts no
// control plane, and the path of the audit log in ROPERATOR_AUDIT_LOG. The control plane
// stops when the command ends, and withcluster exits with its code. If withcluster itself
// is killed, the control plane stops as well. With ROPERATOR_KEEP=1, which keeps what failed
// tests have left, the control plane of a failed command runs until Ctrl-C. Without the variable
// the command gets ROPERATOR_KEEP=namespaces: kube-controller-manager had 180 of 258 namespaces
// left to end when the tests of SHARED ended, and tests that waited for one waited for minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/testkit"
)

// grace is how long the command may take to end after a signal.
const grace = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var crds []string
	flag.Func("crd", "install the CustomResourceDefinitions of this `path`; may be repeated", func(path string) error {
		crds = append(crds, path)
		return nil
	})
	flag.Parse()
	code, err := run(ctx, crds, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "withcluster:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the exit code of the command.
func run(ctx context.Context, crds, command []string) (code int, err error) {
	if len(command) == 0 {
		return 0, errors.New("usage: withcluster [-crd PATH ...] COMMAND [ARGUMENT ...]")
	}
	dir, err := os.MkdirTemp("", "roperator-withcluster-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags, log, err := audit.ServerFlags(dir)
	if err != nil {
		return 0, err
	}
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: crds, ControllerManager: true, APIServerFlags: flags})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if !cluster.HasControllerManager() {
		return 0, errors.New("kube-controller-manager is missing beside kube-apiserver; make controlplane gets it")
	}
	code, err = beside(ctx, cluster, log, command)
	if code != 0 && os.Getenv("ROPERATOR_KEEP") == "1" {
		fmt.Fprintf(os.Stderr, "withcluster: the control plane runs until Ctrl-C: kubectl --kubeconfig %s\n", cluster.Kubeconfig())
		<-ctx.Done()
	}
	return code, err
}

// beside runs the command. An error that isn't the command's own is returned.
func beside(ctx context.Context, cluster *testkit.Cluster, log string, command []string) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+cluster.Kubeconfig(), audit.Variable+"="+log)
	if os.Getenv("ROPERATOR_KEEP") == "" {
		cmd.Env = append(cmd.Env, "ROPERATOR_KEEP=namespaces")
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}
