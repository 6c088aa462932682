package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// The keeper is a process of its own that starts the others and ends them. It
// reads orders from its standard input and reports on file 3. When its input
// ends without the order to detach, because the demo is over or was killed, it
// kills what it has started, removes the folder and ends. The kernel kills the
// rest should the keeper itself be killed.

const (
	keeperCommand = "keeper"         // the demo's first argument that makes it the keeper
	keeperReports = 3                // its file descriptor for reports
	stopTimeout   = 30 * time.Second // of the operator, after SIGTERM
	endTimeout    = 2 * time.Second  // of everything; its data is thrown away anyway
)

// An order is a line of JSON to the keeper.
type order struct {
	Op   string   `json:"op"` // start, stop, detach
	Name string   `json:"name,omitempty"`
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
}

// A report is a line of JSON from the keeper: a process was started, could not
// be started, or has ended.
type report struct {
	Name   string `json:"name"`
	PID    int    `json:"pid,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Reason string `json:"reason,omitempty"` // why it couldn't start or how it ended, "" for exit code 0
}

// keeperState is owned by the keeper's one loop.
type keeperState struct {
	dir      string
	reports  *json.Encoder
	running  map[string]*exec.Cmd
	ended    chan report
	detached bool
}

// keeperMain is the keeper process; it returns its exit code.
func keeperMain(dir string) int {
	runtime.LockOSThread() // see childAttributes; never unlocked
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	syscall.CloseOnExec(keeperReports) // the lock, which comes next, is for the children too

	orders := make(chan order)
	go readOrders(os.Stdin, orders) // ends with the input
	k := &keeperState{
		dir:     dir,
		reports: json.NewEncoder(os.NewFile(keeperReports, "reports")),
		running: map[string]*exec.Cmd{},
		ended:   make(chan report),
	}
	for {
		select {
		case o, more := <-orders:
			switch {
			case more:
				k.obey(o)
			case k.detached:
				orders = nil // from now on only a signal ends the keeper
			default:
				return k.end(syscall.SIGKILL)
			}
		case r := <-k.ended:
			k.forget(r)
		case <-signals:
			return k.end(syscall.SIGTERM)
		}
	}
}

func readOrders(in io.Reader, orders chan<- order) {
	defer close(orders)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if json.Unmarshal(lines.Bytes(), &o) == nil {
			orders <- o
		}
	}
}

func (k *keeperState) obey(o order) {
	switch o.Op {
	case "start":
		pid, err := k.start(o)
		r := report{Name: o.Name, PID: pid}
		if err != nil {
			r.Reason = err.Error()
		}
		_ = k.reports.Encode(r) // nobody is left to be told if it fails; the end of the input follows
	case "stop":
		if cmd := k.running[o.Name]; cmd != nil {
			_ = cmd.Process.Signal(syscall.SIGTERM) // its end is reported in any case
		}
	case "detach":
		k.detached = true
	}
}

// start starts a process that writes to NAME.log.
func (k *keeperState) start(o order) (int, error) {
	log, err := os.OpenFile(filepath.Join(k.dir, o.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.dir, log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	k.running[o.Name] = cmd
	go func() { // ends with the process
		r := report{Name: o.Name, PID: cmd.Process.Pid, Ended: true}
		if err := cmd.Wait(); err != nil {
			r.Reason = err.Error()
		}
		k.ended <- r
	}()
	return cmd.Process.Pid, nil
}

func (k *keeperState) forget(r report) {
	delete(k.running, r.Name)
	_ = k.reports.Encode(r)
}

// end ends every process with the signal, by force what doesn't heed it, and
// removes the folder.
func (k *keeperState) end(how os.Signal) int {
	force := time.NewTimer(endTimeout)
	defer force.Stop()
	for _, cmd := range k.running {
		_ = cmd.Process.Signal(how) // fails only for one that has ended already
	}
	for len(k.running) > 0 {
		select {
		case r := <-k.ended:
			k.forget(r)
		case <-force.C:
			for _, cmd := range k.running {
				_ = cmd.Process.Kill()
			}
		}
	}
	if err := os.RemoveAll(k.dir); err != nil {
		return 1
	}
	return 0
}

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
