package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const stopTimeout = 30 * time.Second // of the operator, after SIGTERM

// A keeper is the demo's end of the keeper process. Its methods are for one
// goroutine.
type keeper struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	reports chan report    // closed when the keeper has ended
	pids    map[string]int // of the processes that run, as far as reported
}

// startKeeper starts the keeper process for a folder, whose lock it holds too.
func startKeeper(dir string, lock *os.File) (*keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	defer write.Close()
	k := &keeper{cmd: exec.Command(self, keeperCommand, dir), reports: make(chan report), pids: map[string]int{}}
	k.cmd.ExtraFiles = []*os.File{write, lock}
	k.cmd.SysProcAttr = keeperAttributes()
	if k.orders, err = k.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	if err := k.cmd.Start(); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	go func() { // ends with the keeper
		defer close(k.reports)
		defer read.Close()
		lines := json.NewDecoder(read)
		for {
			var r report
			if lines.Decode(&r) != nil {
				return
			}
			k.reports <- r
		}
	}()
	return k, nil
}

func (k *keeper) pid() int { return k.cmd.Process.Pid }

// start starts a process and returns when it runs.
func (k *keeper) start(name, path string, args ...string) error {
	if err := k.order(order{Op: "start", Name: name, Path: path, Args: args}); err != nil {
		return err
	}
	for {
		r, err := k.next()
		switch {
		case err != nil:
			return err
		case r.Ended:
			return &processError{name: r.Name, how: r.how()}
		case r.Reason != "":
			return fmt.Errorf("%s: start: %s", r.Name, r.Reason)
		case r.Name == name:
			return nil
		}
	}
}

// stop asks a process to end and returns when it has. An exit code other than
// 0 is an error.
func (k *keeper) stop(name string) error {
	if err := k.order(order{Op: "stop", Name: name}); err != nil {
		return err
	}
	timeout := time.After(stopTimeout)
	for {
		select {
		case r, more := <-k.reports:
			if !more {
				return errKeeperEnded
			}
			k.note(r)
			if r.Name != name || !r.Ended {
				return &processError{name: r.Name, how: r.how()}
			}
			if r.Reason != "" {
				return fmt.Errorf("%s: stop: %s", name, r.Reason)
			}
			return nil
		case <-timeout:
			return fmt.Errorf("%s: didn't end within %v of SIGTERM", name, stopTimeout)
		}
	}
}

// died returns an error if a process has ended that wasn't told to.
func (k *keeper) died() error {
	select {
	case r, more := <-k.reports:
		if !more {
			return errKeeperEnded
		}
		k.note(r)
		return &processError{name: r.Name, how: r.how()}
	default:
		return nil
	}
}

// detach makes everything run on without the demo.
func (k *keeper) detach() error {
	if err := k.died(); err != nil {
		return err
	}
	if err := k.order(order{Op: "detach"}); err != nil {
		return err
	}
	return k.orders.Close()
}

// close ends everything, and returns when all processes have ended.
func (k *keeper) close() error {
	closeErr := k.orders.Close()
	for r := range k.reports {
		k.note(r)
	}
	if err := k.cmd.Wait(); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	for name, pid := range k.pids {
		if running(pid) {
			return fmt.Errorf("%s: still runs as process %d", name, pid)
		}
	}
	return closeErr
}

var errKeeperEnded = errors.New("keeper: ended")

func (k *keeper) order(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	if _, err := k.orders.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	return nil
}

func (k *keeper) next() (report, error) {
	r, more := <-k.reports
	if !more {
		return r, errKeeperEnded
	}
	k.note(r)
	return r, nil
}

func (k *keeper) note(r report) {
	if r.Ended {
		delete(k.pids, r.Name)
	} else if r.PID != 0 {
		k.pids[r.Name] = r.PID
	}
}

func (r report) how() string {
	if r.Reason == "" {
		return "exit status 0"
	}
	return r.Reason
}

// A processError says that a process has ended which should run.
type processError struct{ name, how string }

func (e *processError) Error() string { return fmt.Sprintf("%s: ended: %s", e.name, e.how) }
