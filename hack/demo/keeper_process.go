package main

import (
	"bufio"
	"encoding/json"
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
	keeperCommand = "keeper"        // the demo's first argument that makes it the keeper
	keeperReports = 3               // its file descriptor for reports
	endTimeout    = 2 * time.Second // of everything; its data is thrown away anyway
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
