//go:build unix

package childprocess

import (
	"errors"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// A program starts behind a gate: a shell that becomes the program when it reads a line, and ends
// if this process has ended before. Thus the guard knows the program before it runs.
const (
	gate          = `read -r _ && exec "$0" "$@" </dev/null`
	gateWithStdin = `read -r _ && exec "$0" "$@"`
)

// guardScript gets the ID of a process group as $1 and a folder, or "", as $2. A line on its
// standard input ends it without any consequence.
const guardScript = `
trap '' HUP INT QUIT TERM
read -r _ && exit 0
kill -s KILL -- "-$1" 2>/dev/null
[ -n "$2" ] || exit 0
tries=0
until rm -rf "$2" 2>/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 10 ] || exit 1
	sleep 1
done
`

// shell is a POSIX shell.
const shell = "/bin/sh"

func (p *Process) start(path string, c Command) error {
	script := gate
	if c.Stdin {
		script = gateWithStdin
	}
	p.cmd = exec.Command(shell, append([]string{"-c", script, path}, c.Args...)...)
	c.configure(p.cmd)
	p.cmd.SysProcAttr = ownGroup()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if p.guard, err = startGuard(p.PID(), c.Remove, p.kill); err == nil {
		_, err = io.WriteString(stdin, "\n") // opens the gate
	}
	if !c.Stdin || err != nil {
		err = errors.Join(err, stdin.Close())
	}
	if err != nil {
		p.kill()
		_ = p.cmd.Wait() // it was killed
	}
	return err
}

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *Process) kill() { _ = syscall.Kill(-p.PID(), syscall.SIGKILL) } // fails only if it has ended

func (p *Process) interrupt() error { return p.Signal(syscall.SIGTERM) }

// Pause stops the process, as SIGSTOP does, until Resume.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// A guard is the process that kills the program when this process ends.
type guard struct {
	stdin    io.WriteCloser
	once     sync.Once
	released chan struct{} // closed by release
	ended    chan struct{} // closed when the guard has ended
}

// startGuard starts the guard of a process group. died is called if something kills the guard: the
// program must not run without one.
func startGuard(group int, remove string, died func()) (*guard, error) {
	cmd := exec.Command(shell, "-c", guardScript, "roperator-guard", strconv.Itoa(group), remove)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the end of the terminal is not meant for it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &guard{stdin: stdin, released: make(chan struct{}), ended: make(chan struct{})}
	go func() { // ends with the guard
		defer close(g.ended)
		_ = cmd.Wait() // either it was released, or it was killed
		select {
		case <-g.released:
		default:
			died()
		}
	}()
	return g, nil
}

// release ends the guard without any consequence, and returns when it has ended.
func (g *guard) release() {
	if g == nil {
		return
	}
	g.once.Do(func() {
		close(g.released)
		_, _ = io.WriteString(g.stdin, "\n") // fails only if the guard has ended
		_ = g.stdin.Close()
	})
	<-g.ended
}
