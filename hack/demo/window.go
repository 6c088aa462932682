package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/roperator/roperator/internal/testing/childprocess"
	"github.com/roperator/roperator/internal/testing/plane"
)

// An interruption is the cause of a context that ended by a signal.
type interruption struct{ signal os.Signal }

func (i interruption) Error() string { return "stopped by signal: " + i.signal.String() }

// windowAddress returns where the operator is to serve its window: at a port that one can
// remember, unless somebody listens there.
func windowAddress() (string, error) {
	const preferred = "127.0.0.1:8090"
	if l, err := net.Listen("tcp", preferred); err == nil {
		return preferred, l.Close()
	}
	port, err := plane.FreePort()
	return net.JoinHostPort("127.0.0.1", port), err
}

// openWindow waits until the operator serves its window, says where that is, and shows it
// in a browser if there is a desktop.
func (c *cluster) openWindow(ctx context.Context) error {
	if err := c.await(ctx, "the window is served", func(ctx context.Context) bool { return accepts(ctx, c.window) }); err != nil {
		return err
	}
	c.screen.window("http://"+c.window, browse("http://"+c.window))
	return nil
}

// browse opens a page in the browser of the desktop, and says whether there is one.
func browse(url string) bool {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	opener, err := exec.LookPath("xdg-open")
	if err != nil {
		return false
	}
	p, err := childprocess.Command{Path: opener, Args: []string{url}}.Start()
	if err != nil {
		return false
	}
	p.Release() // it may become the browser, which the end of the demo isn't meant for
	return true
}

// look returns when whoever looks at the window has had enough, and an error if the demo is to
// end for another reason.
func look(ctx context.Context, c *cluster) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.As(context.Cause(ctx), new(interruption)) {
				return nil
			}
			return context.Cause(ctx)
		case <-tick.C:
			if err := c.died(); err != nil {
				c.screen.logTail(c, err)
				return err
			}
		}
	}
}

// window says where the window is. opened says whether a browser shows it.
func (s *screen) window(url string, opened bool) {
	how := "open it in a browser"
	if opened {
		how = "your browser shows it"
	}
	s.print("\n%s\n", s.paint(bold, "window: "+url+"  ("+how+")"))
}

// looking says how to go on while the window is open.
func (s *screen) looking(c *cluster) {
	s.print("\n%s", s.paint(bold, "The operator keeps running until Ctrl-C. Its window is http://"+c.window))
	s.play(c)
}
