package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/roperator/roperator/test/bench/measure"
)

// A process is an operator that runs.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	address string
	log     *os.File
}

// start starts an operator and returns when it can be asked for figures.
func start(ctx context.Context, opts options, v variant, kubeconfig string) (*process, error) {
	p := &process{}
	var err error
	p.log, err = os.OpenFile(filepath.Join(opts.dir, v.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(ctx, filepath.Join(opts.bin, v.binary), v.args...)
	p.cmd.Env = append(os.Environ(), measure.EnvKubeconfig+"="+kubeconfig, measure.EnvParents+"="+strconv.Itoa(opts.parents))
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: has ended without a word: %w", v.name, err), p.stop())
	}
	p.address = strings.TrimSpace(line)
	return p, nil
}

// stop asks the operator to end, and returns when it has.
func (p *process) stop() error {
	defer p.log.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// get asks the operator.
func (p *process) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("operator: %s: %w", path, err)
	}
	return nil
}

func (p *process) stats(ctx context.Context) (measure.Stats, error) {
	var s measure.Stats
	return s, p.get(ctx, "/stats", &s)
}

// rest waits until the operator has done nothing for a while, and returns the
// figures of then.
func (p *process) rest(ctx context.Context) (measure.Stats, error) {
	const (
		interval = 100 * time.Millisecond
		quiet    = 8 // equal answers
	)
	var last measure.Stats
	for equal := 0; equal < quiet; {
		s, err := p.stats(ctx)
		if err != nil {
			return s, err
		}
		if total(s.Requests) == total(last.Requests) && s.Handled == last.Handled {
			equal++
		} else {
			equal = 0
		}
		last = s
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(interval):
		}
	}
	return last, nil
}

func total(requests map[string]int) int {
	sum := 0
	for _, n := range requests {
		sum += n
	}
	return sum
}

// memory returns the resident memory, now and at most since it was forgotten
// last, in bytes.
func (p *process) memory() (now, peak int64, err error) {
	data, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kB, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "VmRSS:":
			now = kB << 10
		case "VmHWM:":
			peak = kB << 10
		}
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("%s: no VmRSS or VmHWM", p.proc("status"))
	}
	return now, peak, nil
}

// forgetPeak makes the present memory the peak.
func (p *process) forgetPeak() error {
	return os.WriteFile(p.proc("clear_refs"), []byte("5"), 0)
}

func (p *process) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), file)
}
