// Package childprocess starts programs that don't outlive this process, however it ends. It is the
// one place in this module that guards child processes: testkit's control planes, the operators of
// tests and the demo's programs are started by it.
//
//	p, err := childprocess.Command{Path: "etcd", Output: log}.Start()
//	defer p.Kill()
//
// On Linux and macOS a guard kills the program: a shell that waits for the end of a pipe, which the
// kernel closes when this process ends. On Windows the kernel kills the program, which belongs to a
// job object of this process. Two goroutines wait for the end of the program and of its guard, and
// end with them.
package childprocess

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Command says what to start.
type Command struct {
	Path   string // of the program, or its name in a folder of PATH
	Args   []string
	Env    []string // in addition to the environment of this process
	Dir    string   // the working directory; "": that of this process
	Output *os.File // standard output and standard error; nil: they are discarded
	Stdin  bool     // Process.Write writes to the standard input; false: it is empty

	// Remove is a folder that the guard removes when this process ends before the program does.
	// Several programs may name the same folder. It is not removed on Windows.
	Remove string
}

// A Process is a program that was started. Its methods may be called concurrently.
type Process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Writer
	guard *guard
	done  chan struct{} // closed when it has ended; err is set then
	err   error
}

// Start starts the program as the leader of a process group, so that a Ctrl-C in the terminal does
// not reach it. The caller must end it, by Kill or Stop, or call Release. An error that is
// os.ErrNotExist: there is no such program.
func (c Command) Start() (*Process, error) {
	name := filepath.Base(c.Path)
	path, err := exec.LookPath(c.Path)
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Process{name: name, done: make(chan struct{})}
	if err := p.start(path, c); err != nil {
		return nil, fmt.Errorf("%s: start: %w", name, err)
	}
	go func() { // ends with the program
		defer close(p.done)
		p.err = p.cmd.Wait()
		p.guard.release()
	}()
	return p, nil
}

// configure sets what is the same on all platforms.
func (c Command) configure(cmd *exec.Cmd) {
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	if c.Output != nil {
		cmd.Stdout, cmd.Stderr = c.Output, c.Output
	}
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err returns how the process has ended: nil for exit code 0, else an *exec.ExitError. Call it
// after Done.
func (p *Process) Err() error { return p.err }

// ExitCode returns the exit code, or -1 if a signal has ended the process. Call it after Done.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Write writes to the standard input of the process, if the Command says Stdin.
func (p *Process) Write(text []byte) (int, error) { return p.stdin.Write(text) }

// Signal sends a signal to the process. The error is os.ErrProcessDone if it has ended.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Kill kills the process group, unless the process has ended, and returns when the process has
// ended. It may be paused.
func (p *Process) Kill() {
	if !p.Ended() {
		p.kill()
	}
	<-p.done
}

// Stop asks the process to end (by SIGTERM; on Windows it kills) and returns when it has ended.
// After the timeout it kills the process and returns an error.
func (p *Process) Stop(timeout time.Duration) error {
	if err := p.interrupt(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: stop: %w", p.name, err)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s: still running %v after it was asked to end", p.name, timeout)
	}
}

// Release lets the process outlive this one.
func (p *Process) Release() { p.guard.release() }

// Find returns the IDs of the processes, of any parent, that have a text in their arguments. It is
// for tests, and not supported on Windows.
func Find(text string) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-ww", "-o", "pid=,stat=,args=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var ids []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if !strings.Contains(line, text) || fields[1][0] == 'Z' { // which has ended
			continue
		}
		id, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("ps: %q: %w", line, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
