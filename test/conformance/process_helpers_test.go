package conformance

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

const (
	// kindVariable says which kind the parents of an operator in a process are, and
	// shutdownVariable how long its passes may go on once it is told to stop.
	kindVariable     = "CONFORMANCE_PARENT_KIND"
	shutdownVariable = "CONFORMANCE_SHUTDOWN_TIMEOUT"
)

// beOperator is the main function of an operator's process. It ends with the
// test, of which it inherited the standard input. A line of that is a word to
// one of its passes that waits for it.
func beOperator(name string) {
	words := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			words <- struct{}{}
		}
		os.Exit(3)
	}()
	cfg := operator(name, configMapChild())
	if kind := os.Getenv(kindVariable); kind != "" {
		cfg.Parent = resource.Type{APIVersion: parentType.APIVersion, Kind: kind}
	}
	timeout, _ := time.ParseDuration(os.Getenv(shutdownVariable)) // none: the default
	h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if _, ok := req.Parent.Field("spec", "data", "wait"); ok {
			fmt.Fprintln(os.Stderr, "waiting for", req.Parent.Name())
			<-words // whatever becomes of ctx
		}
		return copier(ctx, req)
	})
	runner.Program{Operators: []runner.Spec{{Config: cfg, Handler: h}}, Options: runner.Options{ShutdownTimeout: timeout}}.Main()
}

// unreachable is what a process says that has ended because the API server
// didn't answer in time.
const unreachable = "can't be reached"

// startOperator starts an operator, and returns when it has. One that the API
// server was too busy for is started again, as a Deployment would.
func startOperator(t *testing.T, name, kubeconfig string, env []string, args ...string) *operatorproc.Process {
	t.Helper()
	for {
		p := launch(t, name, kubeconfig, env, args...)
		eventually(t, "it has started, or ended", func() bool { return p.Ended() || strings.Contains(p.Said(), "msg=started") })
		if !p.Ended() || !strings.Contains(p.Said(), unreachable) {
			return p
		}
	}
}

// launch starts the process of an operator.
func launch(t *testing.T, name, kubeconfig string, env []string, args ...string) *operatorproc.Process {
	t.Helper()
	return operatorproc.Command{Name: name, Env: env, Args: append([]string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, args...)}.Start(t)
}

// kubeconfigAs returns the file of a kubeconfig with which one impersonates a
// user: an administrator, or nobody in particular.
func kubeconfigAs(t *testing.T, user string, admin bool) string {
	t.Helper()
	return operatorproc.Kubeconfig(t, cluster.Kubeconfig(), user, admin)
}

// bystander returns a Kit whose operator leaves everything as it is.
func bystander(t *testing.T, name string) *testkit.Kit {
	t.Helper()
	return testkit.New(t, cluster, operator(name, config.Child{Type: configMapChild().Type, Strategy: config.OnDelete}),
		handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{KeepChildren: true}, nil
		}))
}
