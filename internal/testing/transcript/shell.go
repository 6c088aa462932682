package transcript

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

const (
	mark = "--end-of-output--"
	// patience is how long what runs in the background may take to end.
	patience = time.Minute
)

// A shell is a bash that is fed a command at a time. It ends when its standard
// input does, also if this process dies, and takes its background jobs along.
type shell struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Closer
	lines chan string // what it prints; closed at its end
}

func startShell(dir string, env []string) (*shell, error) {
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("shell: %w", err)
	}
	sh := &shell{cmd: cmd, in: in, out: out, lines: make(chan string)}
	go func() { // ends with the output, that is with bash and its jobs
		defer close(sh.lines)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			sh.lines <- scanner.Text()
		}
	}()
	_, err = io.WriteString(in, "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shell: %w", err), sh.close())
	}
	return sh, nil
}

// run returns what the command prints.
func (sh *shell) run(ctx context.Context, command string) (string, error) {
	if _, err := fmt.Fprintf(sh.in, "{ %s\n} </dev/null\nprintf '\\n%s\\n'\n", command, mark); err != nil {
		return "", fmt.Errorf("shell: %w", err)
	}
	var output strings.Builder
	for {
		select {
		case line, ok := <-sh.lines:
			switch {
			case !ok:
				return output.String(), fmt.Errorf("shell: ended after printing %q", output.String())
			case line == mark:
				return strings.TrimSuffix(output.String(), "\n"), nil
			}
			output.WriteString(line + "\n")
		case <-ctx.Done():
			return output.String(), fmt.Errorf("shell: not done after printing %q: %w", output.String(), ctx.Err())
		}
	}
}

// close returns when bash and its jobs have ended. That they don't within
// patience is an error.
func (sh *shell) close() error {
	err := sh.in.Close()
	overdue := time.AfterFunc(patience, func() {
		_ = sh.cmd.Process.Kill()
		_ = sh.out.Close() // which a job may hold open
	})
	defer overdue.Stop()
	for range sh.lines { // drained, so that nobody hangs on a full pipe
	}
	if waited := sh.cmd.Wait(); waited != nil {
		return errors.Join(err, fmt.Errorf("shell: %w", waited))
	}
	return err
}
