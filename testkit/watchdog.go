package testkit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A watchdog ends the processes of a control plane when this process dies, in
// whatever way. It is a shell that reads from a pipe whose only other end is
// here: the kernel closes that end with us. Each program is started through
// a script that records its process ID first, so the watchdog knows them
// without being told.
type watchdog struct {
	dir  string // pids/ID holds the name of the program; bin/NAME is its script
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// watchdogScript gets the folder as $1. Renaming pids closes the door: a
// program that recorded its ID before is in the list, one that comes later
// finds that its record isn't there, and gives up. An ID that now belongs to
// another program (no argument of which names our folder) is left alone.
const watchdogScript = `
trap '' HUP INT QUIT TERM
read -r word
[ "$word" = keep ] && exit 0
mv "$1/pids" "$1/ended" 2>/dev/null
for file in "$1"/ended/*; do
	pid=${file##*/}
	case $pid in *[!0-9]*) continue ;; esac
	case $(ps -o args= -p "$pid" 2>/dev/null) in
	"" | *"$1"*) kill -s KILL -- "-$pid" 2>/dev/null ;;
	esac
done
tries=0
until rm -rf "$1" 2>/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 10 ] || exit 1
	sleep 1
done
`

// programScript records its process ID, which is the program's and that of its
// process group, before it becomes the program. The arguments for the format
// are the folder, the name and the program.
const programScript = `#!/bin/sh
[ "$1" = --help ] && exec %[3]s "$@"
record=%[1]s/pids/$$
echo %[2]s >"$record" && [ -e "$record" ] && exec %[3]s "$@"
exit 1
`

func startWatchdog(dir string) (*watchdog, error) {
	for _, sub := range []string{"pids", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("watchdog: %w", err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "roperator-testkit-watchdog", dir)
	cmd.Dir = "/"
	// A session of its own: a Ctrl-C in the terminal isn't meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	return &watchdog{dir: dir, cmd: cmd, pipe: pipe}, nil
}

// program returns what to start in the place of the program at path, with the
// same arguments, so that the watchdog knows of it.
func (w *watchdog) program(path string) (string, error) {
	name := filepath.Base(path)
	script := filepath.Join(w.dir, "bin", name)
	text := fmt.Sprintf(programScript, quote(w.dir), quote(name), quote(path))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		return "", fmt.Errorf("watchdog: %w", err)
	}
	return script, nil
}

// pids returns the IDs of the processes that are recorded.
func (w *watchdog) pids() []string {
	entries, err := os.ReadDir(filepath.Join(w.dir, "pids"))
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

// forget takes note that every process has ended.
func (w *watchdog) forget() error {
	err := os.RemoveAll(filepath.Join(w.dir, "pids"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stop lets the watchdog kill what hasn't been forgotten, remove the folder,
// and end.
func (w *watchdog) stop() error {
	if err := w.pipe.Close(); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("watchdog: %s couldn't be removed: %w", w.dir, err)
	}
	return nil
}

// leave ends the watchdog without any consequence, and returns the command
// that ends the processes.
func (w *watchdog) leave() string {
	ids := w.pids()
	if _, err := io.WriteString(w.pipe, "keep\n"); err == nil {
		_ = w.stop() // it has nothing left to do that could fail
	}
	return fmt.Sprintf("kill %s; rm -rf %s", strings.Join(ids, " "), quote(w.dir))
}

// quote makes one word for the shell out of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ownGroup makes a process the leader of its own group, as envtest does.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// interrupt asks a process to end.
func interrupt(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
