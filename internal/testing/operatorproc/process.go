// Package operatorproc runs operators in processes of their own, for tests that stop and
// kill them: the test's own binary, started again with an environment variable that says
// which operator it is to be.
//
//	p := operatorproc.Start(t, "one", kubeconfig, "run", "--leader-elect")
//	p.Says("msg=leading")
//	p.Signal(syscall.SIGTERM)
//	require.Zero(t, p.Exit())
//
// A Process does not outlive the test binary: it is a childprocess.Process.
package operatorproc

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/internal/testing/childprocess"
)

// Variable is set in the environment of a Process, to its name.
const Variable = "ROPERATOR_TEST_OPERATOR"

// patience only bounds a hang.
const patience = 4 * time.Minute

// A Process is an operator in a process of its own. Its methods are for the test's goroutine.
type Process struct {
	t       *testing.T
	process *childprocess.Process
	log     string // the file it writes to; "": it writes elsewhere
}

// A Command says what a Process is to be.
type Command struct {
	Name   string // the value of Variable
	Args   []string
	Env    []string // besides that of the test
	Output *os.File // where it writes; nil: what it writes is kept, for Said
}

// Start starts the test's binary as an operator of this name, which finds its API server
// by a kubeconfig.
func Start(t *testing.T, name, kubeconfig string, args ...string) *Process {
	t.Helper()
	return Command{Name: name, Args: args, Env: []string{"KUBECONFIG=" + kubeconfig}}.Start(t)
}

// Start starts the test's binary.
func (c Command) Start(t *testing.T) *Process {
	t.Helper()
	p := &Process{t: t}
	out := c.Output
	if out == nil {
		p.log = filepath.Join(t.TempDir(), "log")
		kept, err := os.Create(p.log)
		require.NoError(t, err)
		defer kept.Close()
		out = kept
	}
	var err error
	p.process, err = childprocess.Command{
		Path: os.Args[0], Args: c.Args, Env: append([]string{Variable + "=" + c.Name}, c.Env...), Output: out, Stdin: true,
	}.Start()
	require.NoError(t, err)
	t.Cleanup(func() {
		p.process.Kill()
		if t.Failed() && p.log != "" {
			t.Logf("%s said:\n%s", c.Name, p.Said())
		}
	})
	return p
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.process.PID() }

// Word writes a line to the standard input of the process.
func (p *Process) Word() {
	p.t.Helper()
	_, err := io.WriteString(p.process, "go on\n")
	require.NoError(p.t, err)
}

// SignalIfRunning sends a signal to the process, unless it has ended.
func (p *Process) SignalIfRunning(signal syscall.Signal) { _ = p.process.Signal(signal) }

// Signal sends a signal to the process, which must not have ended.
func (p *Process) Signal(signal syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.process.Signal(signal))
}

// Freeze stops the process as SIGSTOP does, until SIGCONT.
func (p *Process) Freeze() {
	p.t.Helper()
	require.NoError(p.t, p.process.Pause())
}

// Ended says whether the process has ended.
func (p *Process) Ended() bool { return p.process.Ended() }

// Exit waits for the end of the process, and returns its exit code, -1 if a signal has ended it.
func (p *Process) Exit() int {
	p.t.Helper()
	require.Eventually(p.t, p.Ended, patience, 50*time.Millisecond, "the process ends")
	return p.process.ExitCode()
}

// Said returns what the process has written so far, where that is kept.
func (p *Process) Said() string {
	text, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(text)
}

// Says waits until the process has written a text.
func (p *Process) Says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.Said(), text) || p.Ended() }, patience, 50*time.Millisecond, "it says %s", text)
	require.Contains(p.t, p.Said(), text)
}

// Kubeconfig returns a kubeconfig like the given one, with which one impersonates a user: an
// administrator, or nobody in particular.
func Kubeconfig(t *testing.T, like, user string, admin bool) string {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(like)
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
