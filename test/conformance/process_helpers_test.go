package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

const (
	// processVariable makes the test's binary an operator of this name, and
	// kindVariable says which kind its parents are, and shutdownVariable how long its
	// passes may go on once it is told to stop.
	processVariable  = "CONFORMANCE_OPERATOR"
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

// A process is an operator in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Writer
	log  string        // the file it logs to
	done chan struct{} // closed when it has ended
}

// unreachable is what a process says that has ended because the API server
// didn't answer in time.
const unreachable = "can't be reached"

// startOperator starts an operator, and returns when it has. One that the API
// server was too busy for is started again, as a Deployment would.
func startOperator(t *testing.T, name, kubeconfig string, env []string, args ...string) *process {
	t.Helper()
	for {
		p := launch(t, name, kubeconfig, env, args...)
		eventually(t, "it has started, or ended", func() bool { return p.ended() || strings.Contains(p.said(), "msg=started") })
		if !p.ended() || !strings.Contains(p.said(), unreachable) {
			return p
		}
	}
}

// launch starts the process of an operator.
func launch(t *testing.T, name, kubeconfig string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	require.NoError(t, err)
	defer out.Close()
	p.cmd = exec.Command(os.Args[0], append([]string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, args...)...)
	p.cmd.Env = append(append(os.Environ(), processVariable+"="+name), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.in = in
	require.NoError(t, p.cmd.Start())
	go func() { // ends with the process, which the cleanup sees to
		defer close(p.done)
		_ = p.cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // unless it has ended
		<-p.done
		_ = in.Close() // it was needed up to here
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.said())
		}
	})
	return p
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(signal))
}

// freeze stops the process as SIGSTOP does. It would never see its standard
// input close, so a shell does, and kills it if this process dies.
func (p *process) freeze() {
	p.t.Helper()
	guard := exec.Command("sh", "-c", `read -r _ || kill -KILL "$0"`, strconv.Itoa(p.cmd.Process.Pid))
	in, err := guard.StdinPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, guard.Start())
	p.t.Cleanup(func() {
		_, err := io.WriteString(in, "done\n")
		require.NoError(p.t, err)
		require.NoError(p.t, guard.Wait())
	})
	p.signal(syscall.SIGSTOP)
}

// word lets a pass go on that waits for it.
func (p *process) word() {
	p.t.Helper()
	_, err := io.WriteString(p.in, "go on\n")
	require.NoError(p.t, err)
}

// ended says whether the process has.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exit waits for the process to end, and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	eventually(p.t, "the process ends", p.ended)
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(text)
}

// says waits until the process has logged this.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, "the process says "+text, func() bool { return strings.Contains(p.said(), text) })
}

// kubeconfigAs returns the file of a kubeconfig with which one impersonates a
// user: an administrator, or nobody in particular.
func kubeconfigAs(t *testing.T, user string, admin bool) string {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	require.NoError(t, err)
	for _, info := range cfg.AuthInfos {
		info.Impersonate = user
		if admin {
			info.ImpersonateGroups = []string{"system:masters"}
		}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*cfg, file))
	return file
}

// bystander returns a Kit whose operator leaves everything as it is.
func bystander(t *testing.T, name string) *testkit.Kit {
	t.Helper()
	return testkit.New(t, cluster, operator(name, config.Child{Type: configMapChild().Type, Strategy: config.OnDelete}),
		handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{KeepChildren: true}, nil
		}))
}
