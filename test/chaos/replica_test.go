package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A replica is a process of the operator, and the one that follows it when it
// has ended.
type replica struct {
	slot  int
	dir   string
	route *route
	mu    struct {
		sync.Mutex
		process *os.Process // nil: none runs
	}
}

// identity is that of a process. Its records and logs have it in their names.
func (r *replica) identity(run int) string { return fmt.Sprintf("%d-%d", r.slot, run) }

// keep runs processes, one after the other, until ctx ends and the last has.
func (r *replica) keep(ctx context.Context, rng *rand.Rand, failed func(error)) {
	for run := 0; ctx.Err() == nil; run++ {
		host := r.route.layer
		if rng.IntN(4) == 0 {
			host = r.route.direct
		}
		if err := r.run(ctx, r.identity(run), "https://"+host); err != nil {
			failed(fmt.Errorf("replica %s: %w", r.identity(run), err))
			return
		}
		pauseFor(ctx, time.Duration(200+rng.IntN(800))*time.Millisecond)
	}
}

// run returns when the process has ended, whyever.
func (r *replica) run(ctx context.Context, identity, host string) error {
	out, err := os.Create(filepath.Join(r.dir, "replica-"+identity+".log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), identityVariable+"="+identity, hostVariable+"="+host,
		tokenVariable+"="+user(r.slot), recordVariable+"="+filepath.Join(r.dir, "finalized-"+identity))
	cmd.Stdout, cmd.Stderr = out, out
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.set(cmd.Process)
	defer r.set(nil)
	ended := make(chan struct{})
	go func() { // ends with the process
		defer close(ended)
		_ = cmd.Wait() // it may fail
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // unless it has ended
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		_ = cmd.Process.Kill() // unless it has ended
		<-ended
		return fmt.Errorf("it didn't end when told to")
	}
	return nil
}

func (r *replica) set(p *os.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.process = p
}

// signal says whether there was a process to be sent it.
func (r *replica) signal(s os.Signal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.process != nil && r.mu.process.Signal(s) == nil
}

func user(slot int) string { return fmt.Sprint("replica-", slot) }

// pauseFor returns false if ctx ended before.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
