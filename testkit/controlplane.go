package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// These only bound a hang: either takes an idle machine some seconds.
	defaultStartTimeout = 5 * time.Minute
	stopTimeout         = 2 * time.Minute

	startAttempts = 3 // when another process took the port that was free a moment ago
	tailLines     = 15
)

// A controlPlane is a running etcd and kube-apiserver, and perhaps a
// kube-controller-manager.
type controlPlane struct {
	dir      string
	plane    *envtest.ControlPlane
	manager  *process // nil if there is none
	watchdog *watchdog
	logs     []*os.File
	timeout  time.Duration
}

// startControlPlane starts etcd and kube-apiserver with everything they write
// below dir.
func startControlPlane(dir string, bin binaries, flags map[string]string) (*controlPlane, error) {
	timeout, err := startTimeout()
	if err != nil {
		return nil, err
	}
	p := &controlPlane{dir: dir, timeout: timeout}
	if p.watchdog, err = startWatchdog(dir); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	for attempt := 1; ; attempt++ {
		err = p.start(bin, flags, attempt)
		if err == nil {
			return p, nil
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, errors.Join(err, p.stop())
		}
	}
}

func startTimeout() (time.Duration, error) {
	const variable = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
	text := os.Getenv(variable)
	if text == "" {
		return defaultStartTimeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("control plane: %s: %w", variable, err)
	}
	return timeout, nil
}

// start makes one attempt.
func (p *controlPlane) start(bin binaries, flags map[string]string, attempt int) error {
	etcd := &envtest.Etcd{
		DataDir:      filepath.Join(p.dir, fmt.Sprintf("etcd-%d", attempt)),
		StartTimeout: p.timeout, StopTimeout: stopTimeout,
	}
	// What is lost in a crash is lost with the test: envtest turns fsync off.
	etcd.Configure().Set("log-level", "warn")
	server := &envtest.APIServer{
		CertDir:      filepath.Join(p.dir, fmt.Sprintf("certs-%d", attempt)),
		StartTimeout: p.timeout, StopTimeout: stopTimeout,
	}
	server.Configure().
		Set("endpoint-reconciler-type", "none"). // it can't publish a loopback address, and retries
		Set("delete-collection-workers", "16").
		Set("profiling", "false")
	for name, value := range flags {
		server.Configure().Set(strings.TrimLeft(name, "-"), value)
	}
	for _, dir := range []string{etcd.DataDir, server.CertDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("control plane: %w", err)
		}
	}
	etcdLog, err := p.log(fmt.Sprintf("etcd-%d.log", attempt))
	if err != nil {
		return err
	}
	serverLog, err := p.log(fmt.Sprintf("kube-apiserver-%d.log", attempt))
	if err != nil {
		return err
	}
	etcd.Out, etcd.Err = etcdLog, etcdLog
	server.Out, server.Err = serverLog, serverLog
	if etcd.Path, err = p.watchdog.program(bin.etcd); err != nil {
		return err
	}
	if server.Path, err = p.watchdog.program(bin.apiServer); err != nil {
		return err
	}
	p.plane = &envtest.ControlPlane{Etcd: etcd, APIServer: server, KubectlPath: "kubectl"}
	if err := p.plane.Start(); err != nil {
		return fmt.Errorf("control plane: %s: %w\n%s", filepath.Dir(bin.apiServer), err,
			tails(etcdLog.Name(), serverLog.Name()))
	}
	return nil
}

// log creates a file below dir for the output of a process.
func (p *controlPlane) log(name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(p.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	p.logs = append(p.logs, file)
	return file, nil
}

// tails returns the last lines of each file, with the file's name above.
func tails(files ...string) string {
	var b strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", filepath.Base(file), err)
			continue
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			fmt.Fprintf(&b, "%s is empty\n", filepath.Base(file))
			continue
		}
		lines := strings.Split(string(text), "\n")
		lines = lines[max(0, len(lines)-tailLines):]
		fmt.Fprintf(&b, "the end of %s:\n  %s\n", filepath.Base(file), strings.Join(lines, "\n  "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// addUser returns a kubeconfig with a certificate for the user.
func (p *controlPlane) addUser(name string, groups ...string) ([]byte, error) {
	user, err := p.plane.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{})
	if err != nil {
		return nil, fmt.Errorf("control plane: user %s: %w", name, err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("control plane: user %s: %w", name, err)
	}
	return kubeconfig, nil
}

// stop ends every process, and lets the watchdog kill those that don't end.
func (p *controlPlane) stop() error {
	var errs []error
	if p.manager != nil {
		errs = append(errs, p.manager.stop())
	}
	if p.plane != nil {
		errs = append(errs, p.plane.Stop())
	}
	err := errors.Join(errs...)
	if err == nil {
		err = p.watchdog.forget()
	}
	for _, log := range p.logs {
		_ = log.Close() // only the processes have written to it
	}
	return errors.Join(err, p.watchdog.stop())
}

// leave lets every process run on, and returns the command that ends them.
func (p *controlPlane) leave() string { return p.watchdog.leave() }

// A process is a program that was started by us rather than by envtest.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set then
	err  error
}

func startProcess(name string, log *os.File, path string, args ...string) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// stop returns when the process has ended.
func (p *process) stop() error {
	select {
	case <-p.done:
		return nil // of itself, which whoever needed it has noticed
	default:
	}
	if err := interrupt(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		return nil
	case <-timeout.C:
		return errors.Join(fmt.Errorf("%s: still running %v after SIGTERM", p.name, stopTimeout), p.cmd.Process.Kill())
	}
}
