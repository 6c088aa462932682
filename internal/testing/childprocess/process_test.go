//go:build unix

package childprocess

import (
	"bufio"
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
	"go.uber.org/goleak"
)

const (
	patience = time.Minute // only bounds a hang
	// victimVariable makes the test binary a victim. Its value is the victim's folder.
	victimVariable = "ROPERATOR_CHILDPROCESS_VICTIM"
	// programs is how many programs a victim starts.
	programs = 20
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		victim(dir)
	}
	goleak.VerifyTestMain(m)
}

// victim starts programs whose arguments have the folder in them, prints the ID of each, and waits for its death.
func victim(dir string) {
	for i := range programs {
		p, err := Command{Path: "/bin/sh", Args: []string{"-c", "sleep 600; : " + dir, strconv.Itoa(i)}, Remove: dir}.Start()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
	}
	select {}
}

// running returns the IDs of the processes that have a text in their arguments, guards included.
func running(t *testing.T, text string) []int {
	t.Helper()
	ids, err := Find(text)
	require.NoError(t, err)
	return ids
}

func TestNothingOutlivesThisProcess(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		signal syscall.Signal
		after  int // how many programs run by then
	}{
		"Killed":              {"nothing in the process can clean up", syscall.SIGKILL, programs},
		"KilledWhileStarting": {"a program must not run without its guard", syscall.SIGKILL, 3},
		"Interrupted":         {"a program is not in the group that the terminal signals", syscall.SIGINT, programs},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "folder")
			require.NoError(t, os.Mkdir(dir, 0o700))
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimVariable+"="+dir)
			cmd.SysProcAttr = ownGroup()
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewReader(out)
			for range tc.after {
				line, err := lines.ReadString('\n')
				require.NoError(t, err)
				_, err = strconv.Atoi(strings.TrimSpace(line))
				require.NoError(t, err)
			}
			require.NotEmpty(t, running(t, dir))
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, tc.signal))
			require.Error(t, cmd.Wait())
			require.Eventually(t, func() bool { return len(running(t, dir)) == 0 }, patience, 20*time.Millisecond, tc.reason)
			require.NoDirExists(t, dir, tc.reason)
		})
	}
}

// start starts a shell script, which the test's end kills.
func start(t *testing.T, c Command, script string) *Process {
	t.Helper()
	c.Path, c.Args = "/bin/sh", []string{"-c", script}
	p, err := c.Start()
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// output returns a file for the output of a program, and a function that waits for a line in it.
func output(t *testing.T) (*os.File, func(line string)) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return file, func(line string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(file.Name())
			return err == nil && strings.Contains(string(text), line+"\n")
		}, patience, time.Millisecond, line)
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, script string
		code           int
		want           string
	}{
		"Success": {"exit code 0 is no error", "exit 0", 0, ""},
		"Failure": {"the code is the program's, not the guard's", "exit 7", 7, "exit status 7"},
		"Signal":  {"a signal has no exit code", "kill -s KILL $$", -1, "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, Command{}, tc.script)
			<-p.Done()
			require.Equal(t, tc.code, p.ExitCode(), tc.reason)
			if tc.want == "" {
				require.NoError(t, p.Err(), tc.reason)
			} else {
				require.EqualError(t, p.Err(), tc.want, tc.reason)
			}
			require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
			require.NoError(t, p.Stop(patience), "it has ended")
		})
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	file, prints := output(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	p := start(t, Command{Dir: dir, Env: []string{"GREETING=hello"}, Output: file, Stdin: true}, `pwd -P; echo "$GREETING"; read -r line; echo "read $line"; cat`)
	prints(dir)
	prints("hello")
	_, err = io.WriteString(p, "one\ntwo\n")
	require.NoError(t, err)
	prints("read one")
	prints("two")

	file, prints = output(t)
	empty := start(t, Command{Output: file}, `cat; echo end`)
	prints("end")
	<-empty.Done()

	_, err = Command{Path: "/nothing/here"}.Start()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Command{Path: "no-such-program"}.Start()
	require.EqualError(t, err, "no-such-program: file does not exist")
	_, err = Command{Path: "sh", Dir: "/nothing/here"}.Start()
	require.ErrorContains(t, err, "sh: start: ")
}

func TestPauseAndKill(t *testing.T) {
	t.Parallel()
	file, prints := output(t)
	p := start(t, Command{Output: file, Stdin: true}, `while read -r line; do echo "$line"; done`)
	stopped := func() bool {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.PID())).Output()
		return err == nil && len(out) > 0 && out[0] == 'T'
	}
	require.NoError(t, p.Pause())
	require.Eventually(t, stopped, patience, time.Millisecond)
	require.NoError(t, p.Resume())
	_, err := io.WriteString(p, "on\n")
	require.NoError(t, err)
	prints("on")
	require.NoError(t, p.Pause())
	require.False(t, p.Ended())
	p.Kill()
	require.True(t, p.Ended())
	p.Kill() // a second call does nothing
}

func TestStop(t *testing.T) {
	t.Parallel()
	file, prints := output(t)
	p := start(t, Command{Output: file}, `trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done`)
	prints("up")
	require.NoError(t, p.Stop(patience))
	require.Equal(t, 3, p.ExitCode())

	file, prints = output(t)
	p = start(t, Command{Output: file}, `trap '' TERM; echo up; while :; do sleep 0.01; done`)
	prints("up")
	require.EqualError(t, p.Stop(time.Millisecond), "sh: still running 1ms after it was asked to end")
	require.True(t, p.Ended())
}

func TestRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, Command{Remove: dir}, "sleep 600; : "+dir)
	require.Len(t, running(t, dir), 2, "the program and its guard")
	p.Release()
	p.Release() // a second call does nothing
	require.Equal(t, []int{p.PID()}, running(t, dir))
	p.Kill()
	require.Empty(t, running(t, dir))
	require.DirExists(t, dir)
}

// A program whose guard was killed ends: it would outlive this process.
func TestKilledGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, Command{Remove: dir}, "exec sleep 600")
	guards := running(t, dir)
	require.Len(t, guards, 1)
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	<-p.Done()
	require.EqualError(t, p.Err(), "signal: killed")
}
