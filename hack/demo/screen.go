package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/roperator/roperator/internal/testing/plane"
)

// A screen is what the demo prints: in colour, and at a pace one can follow, on
// a terminal. Its methods may be called concurrently.
type screen struct {
	begin    time.Time
	color    bool
	terminal bool
	mu       struct {
		sync.Mutex
		out io.Writer
	}
}

const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func newScreen(out *os.File) *screen {
	s := &screen{begin: time.Now()}
	s.terminal = term.IsTerminal(int(out.Fd()))
	s.color = s.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	s.mu.out = out
	return s
}

func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.mu.out, format+"\n", args...)
}

func (s *screen) paint(style, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (s *screen) clock() string {
	return s.paint(faint, fmt.Sprintf("%6.1fs", time.Since(s.begin).Seconds()))
}

// pause gives a reader at a terminal time to look.
func (s *screen) pause(ctx context.Context) {
	const pace = 2 * time.Second
	if !s.terminal {
		return
	}
	timer := time.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// chapter announces what happens next.
func (s *screen) chapter(format string, args ...any) {
	s.print("\n%s %s", s.clock(), s.paint(bold, "== "+fmt.Sprintf(format, args...)))
}

// event tells of a change in the cluster.
func (s *screen) event(key id, what string) {
	s.print("%s    %s %-14s %s", s.clock(), s.paint(cyan, fmt.Sprintf("%-11s", key.kind)), key.name, what)
}

// note tells of something the demo has seen or done.
func (s *screen) note(format string, args ...any) {
	s.print("%s    %s", s.clock(), fmt.Sprintf(format, args...))
}

// tree draws the parents with their children, or only the one parent named.
func (s *screen) tree(v view, only string) {
	var b strings.Builder
	for _, parent := range v.parents() {
		if only != "" && parent.GetName() != only {
			continue
		}
		fmt.Fprintf(&b, "\n           %s %s  %s", parent.GetKind(), parent.GetName(), s.paint(faint, phase(parent)))
		children := v.children(parent.GetName())
		for i, child := range children {
			branch := "├─"
			if i == len(children)-1 {
				branch = "└─"
			}
			fmt.Fprintf(&b, "\n           %s %-8s %-14s %-12s %s", branch, child.GetKind(), child.GetName(), phase(child),
				s.paint(faint, "uid "+shortUID(child)))
		}
	}
	if b.Len() > 0 {
		s.print("%s", strings.TrimPrefix(b.String(), "\n"))
	}
}

// logTail shows what a process has written last, if the error has to do with
// one, else what the operator has.
func (s *screen) logTail(c *cluster, err error) {
	process := c.operator
	if died := (*processError)(nil); errors.As(err, &died) {
		process = died.process
	}
	if said := process.Said(); said != "" {
		s.print("\n%s", said)
	}
}

// kept says how to go on with what was left running, and the command that ends it.
func (s *screen) kept(c *cluster, end string) {
	s.print("\n%s", s.paint(bold, "The cluster and the operator keep running. To play with them:"))
	s.play(c)
	if c.window != "" {
		s.print("The operator's window:\n  http://%s", c.window)
	}
	s.print("To have your working copy take the operator's place, from the project's folder, until Ctrl-C:\n  go run ./examples/echoserver run --dev")
	s.print("To stop everything and remove its files:\n  %s", end)
}

// play says how to reach the cluster.
func (s *screen) play(c *cluster) {
	s.print("  export KUBECONFIG=%s", quote(c.admin))
	if _, err := exec.LookPath("kubectl"); err != nil {
		if path, err := plane.Binary("kubectl"); err == nil {
			s.print("  export PATH=%s:$PATH", quote(filepath.Dir(path)))
		}
	}
	s.print("  kubectl get echo,pods,services\n  kubectl explain echo.spec\n  tail -f %s", quote(filepath.Join(c.dir, "echoserver.log")))
}

// quote makes one word for the shell of s.
func quote(s string) string {
	if !strings.ContainsAny(s, " \t'\"$`\\!*?[](){}<>|&;~#") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ok is the last line of a demo that showed everything.
func (s *screen) ok() { s.print("%s", s.paint(green, "demo: ok")) }

// failed is the last line of one that did not.
func (s *screen) failed(err error) {
	s.print("%s", s.paint(red, "demo: failed: "+strings.ReplaceAll(err.Error(), "\n", "; ")))
}
