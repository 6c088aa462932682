package plane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/roperator/roperator/internal/testing/childprocess"
)

// tailLines is how many lines of a log Said returns at most.
const tailLines = 15

// A Process is a program of the control plane, which does not outlive this process. Its methods
// may be called concurrently.
type Process struct {
	*childprocess.Process
	program, log string
	from         int64 // where in the log its own lines begin
}

// StartProgram runs a program of the control plane (see Binary). Its output is appended to the
// file log, whose folder is removed if this process ends first. The caller must Kill the Process.
func StartProgram(log, program string, args ...string) (*Process, error) {
	binary, err := Binary(program)
	if err != nil {
		return nil, err
	}
	return StartBinary(log, binary, args...)
}

// StartBinary does the same with a program at a path of its own.
func StartBinary(log, binary string, args ...string) (*Process, error) {
	p := &Process{program: filepath.Base(binary), log: log}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.program, err)
	}
	defer out.Close()
	if p.from, err = out.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("%s: %w", p.program, err)
	}
	p.Process, err = childprocess.Command{Path: binary, Args: args, Output: out, Remove: filepath.Dir(log)}.Start()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Kill kills the process, unless it has ended, and returns when it has ended. It may
// be paused. A nil Process has ended.
func (p *Process) Kill() {
	if p != nil {
		p.Process.Kill()
	}
}

// await returns when the process is ready.
func (p *Process) await(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.Done():
			return fmt.Errorf("%w\n%s", p.Exited(), p.Said())
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready: %w\n%s", p.program, ctx.Err(), p.Said())
		case <-tick.C:
		}
	}
	return nil
}

// Exited returns nil while the process runs, else an error that says how it has ended. A nil Process
// doesn't count as ended.
func (p *Process) Exited() error {
	if p == nil || !p.Ended() {
		return nil
	}
	return fmt.Errorf("%s: ended: %w", p.program, cmp.Or(p.Err(), errors.New("exit status 0")))
}

// Said returns the last lines that the process has logged, with the file's name above. A nil
// Process has said nothing.
func (p *Process) Said() string {
	if p == nil {
		return ""
	}
	name := filepath.Base(p.log)
	text, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("%s: %v", name, err)
	}
	text = bytes.TrimSpace(text[min(p.from, int64(len(text))):])
	if len(text) == 0 {
		return name + " is empty"
	}
	lines := strings.Split(string(text), "\n")
	return fmt.Sprintf("the end of %s:\n  %s", name, strings.Join(lines[max(0, len(lines)-tailLines):], "\n  "))
}
