// Command demo shows the echoserver operator at work on a local cluster: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and kwok that plays
// the kubelet of two nodes. `make demo` builds what it needs and runs it.
//
// Its last line is "demo: ok", or the reason why not with exit code 1. Nothing
// it has started outlives it, unless it was asked to keep it all running.
//
// A reader starts with story.go, which is what the demo shows. cluster.go starts the
// processes, by the packages that tests use, too: internal/testing/plane and
// internal/testing/kubelet. world.go watches the objects, and window.go opens the
// operator's window.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// demoTimeout is far beyond the half minute that the story takes.
const demoTimeout = 5 * time.Minute

// options are the command line.
type options struct {
	operator   string // binary of the operator
	crd        string // file with the operator's CustomResourceDefinition
	dir        string // where each run has its folder
	keep       bool
	window     bool // whether the operator serves its window
	withParent bool
}

func main() {
	klog.SetLogger(logr.Discard()) // client-go's remarks on watches that end; errors come back in any case
	var opts options
	flag.StringVar(&opts.operator, "operator", ".cache/bin/echoserver", "the echoserver operator's `binary`")
	flag.StringVar(&opts.crd, "crd", "examples/echoserver/crd.yaml", "`file` with the CRD to install")
	flag.StringVar(&opts.dir, "dir", ".cache/demo", "`folder` for what the processes write")
	flag.BoolVar(&opts.keep, "keep", false, "leave everything running at the end")
	flag.BoolVar(&opts.window, "window", false, "have the operator serve its window, and let it run until Ctrl-C at the end")
	flag.BoolVar(&opts.withParent, "with-parent", false, "stop when the process that started this one ends")
	flag.Parse()
	out := newScreen(os.Stdout)
	if flag.NArg() > 0 {
		out.failed(fmt.Errorf("unknown argument %q", flag.Arg(0)))
		os.Exit(1)
	}
	if err := run(opts, out); err != nil {
		out.failed(err)
		os.Exit(1)
	}
	out.ok()
}

// run shows the demo and leaves nothing behind, or all of it with opts.keep.
func run(opts options, out *screen) (err error) {
	ctx, stop := demoContext(opts)
	defer stop(nil)
	c, err := newCluster(opts, out)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			err = errors.Join(err, c.close())
		}
	}()
	if err := show(ctx, c, opts); err != nil {
		return err
	}
	if !opts.keep {
		return finish(ctx, c)
	}
	end, err := c.leave()
	if err != nil {
		return err
	}
	kept = true
	out.kept(c, end)
	return nil
}

// show tells the story in the time that it has.
func show(ctx context.Context, c *cluster, opts options) (err error) {
	if opts.window {
		if c.window, err = windowAddress(); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, demoTimeout, fmt.Errorf("not done after %v", demoTimeout))
	defer stop()
	if err = story(ctx, c, opts); err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	c.screen.logTail(c, err)
	return err
}

// finish ends everything, with a window once nobody wants to look any more.
func finish(ctx context.Context, c *cluster) error {
	if c.window != "" {
		c.screen.looking(c)
		if err := look(ctx, c); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
	}
	return end(ctx, c)
}

// demoContext ends with a signal and, if asked for, the parent process. Its cause says
// which.
func demoContext(opts options) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	parent := os.Getppid()
	go func() { // ends with ctx
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				signal.Stop(signals) // a second one ends the demo at once, and its guards clean up
				cancel(interruption{s})
			case <-tick.C:
				if opts.withParent && os.Getppid() != parent {
					cancel(errors.New("stopped: the process that started it has ended"))
				}
			}
		}
	}()
	return ctx, cancel
}
