package childprocess

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// start puts the process into a job object right after it has started it. If this process ends
// between the two, the program runs on.
func (p *Process) start(path string, c Command) error {
	p.cmd = exec.Command(path, c.Args...)
	c.configure(p.cmd)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if c.Stdin {
		var err error
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	var err error
	if p.guard, err = startGuard(p.PID()); err != nil {
		p.kill()
		_ = p.cmd.Wait() // it was killed
	}
	return err
}

func (p *Process) kill() { _ = p.cmd.Process.Kill() } // fails only if it has ended

func (p *Process) interrupt() error { return p.cmd.Process.Kill() }

var errPause = errors.ErrUnsupported

// Pause isn't supported on Windows.
func (p *Process) Pause() error { return fmt.Errorf("%s: pause: %w", p.name, errPause) }

// Resume isn't supported on Windows.
func (p *Process) Resume() error { return fmt.Errorf("%s: resume: %w", p.name, errPause) }

// A guard is a job object, whose processes end when its only handle is closed: by this process, or
// by its end.
type guard struct {
	job  windows.Handle
	once sync.Once
}

func startGuard(pid int) (g *guard, err error) {
	g = &guard{}
	if g.job, err = windows.CreateJobObject(nil, nil); err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	defer func() {
		if err != nil {
			_ = windows.CloseHandle(g.job)
		}
	}()
	if err := g.limit(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE); err != nil {
		return nil, err
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(g.job, process); err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	return g, nil
}

func (g *guard) limit(flags uint32) error {
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: flags}}
	_, err := windows.SetInformationJobObject(g.job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	return nil
}

// release lets the processes of the job object live on.
func (g *guard) release() {
	if g == nil {
		return
	}
	g.once.Do(func() {
		_ = g.limit(0) // its processes then outlive the handle
		_ = windows.CloseHandle(g.job)
	})
}
