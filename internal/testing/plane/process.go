package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Process dies with this one, however that ends: a shell kills it when the
// pipe to this process is closed. Its methods may be called concurrently.
type Process struct {
	log  string
	from int64 // where in the log its own lines begin
	pid  int
	pipe io.Closer
	done chan struct{}
}

// guardScript runs "$@", tells its PID on descriptor 3, and kills it when the
// standard input ends.
const guardScript = `exec 4<&0; "$@" </dev/null 3>&- 4<&- & pid=$!; echo $pid >&3; exec 3>&-; { cat <&4 >/dev/null; kill -KILL $pid 2>/dev/null; } & wait $pid`

// Binary returns where a program of the control plane is: in the folder that
// KUBEBUILDER_ASSETS names. An error that is os.ErrNotExist: it isn't there.
func Binary(program string) (string, error) {
	path := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w; make controlplane gets it", program, err)
	}
	return path, nil
}

// StartProgram runs a program of the control plane (see Binary), whose output is appended to the
// file log. The caller must Kill it.
func StartProgram(log, program string, args ...string) (*Process, error) {
	binary, err := Binary(program)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	from, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	cmd := exec.Command("bash", append([]string{"-c", guardScript, "guard", binary}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{tell}
	p := &Process{log: log, from: from, done: make(chan struct{})}
	p.pipe, err = cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = tell.Close() // the shell has its own
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	go func() { // ends when the process does
		defer close(p.done)
		_ = cmd.Wait() // it is killed
	}()
	line, err := bufio.NewReader(told).ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: its PID: %w", program, err)
	}
	return p, nil
}

// Kill kills the process, if it hasn't ended, and returns when it has. It may
// be paused. A nil Process has ended.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.pipe.Close() // ends the process, whichever way
	<-p.done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pause stops the process as SIGSTOP does, until Resume.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return errors.New("plane: the process has ended")
	default:
		return syscall.Kill(p.pid, s)
	}
}

// await returns when the process is ready. name is the program's.
func (p *Process) await(ctx context.Context, name string, ready func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended: %s", name, p.Said())
		case <-ctx.Done():
			return fmt.Errorf("%s isn't ready: %w: %s", name, ctx.Err(), p.Said())
		case <-tick.C:
		}
	}
	return nil
}

// Said returns the end of what the process has logged. A nil Process has said nothing.
func (p *Process) Said() string {
	if p == nil {
		return ""
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	text = text[min(p.from, int64(len(text))):]
	return string(text[max(0, len(text)-2000):])
}
