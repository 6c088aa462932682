package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/testing/childprocess"
)

// A replica is a process of the operator, and the one that follows it when it
// has ended.
type replica struct {
	slot  int
	dir   string
	token string // of its user
	route *route
	mu    struct {
		sync.Mutex
		process *childprocess.Process // nil: none runs
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
	p, err := childprocess.Command{Path: os.Args[0], Output: out, Env: []string{
		identityVariable + "=" + identity, hostVariable + "=" + host,
		tokenVariable + "=" + r.token, recordVariable + "=" + filepath.Join(r.dir, "finalized-"+identity),
	}}.Start()
	if err != nil {
		return err
	}
	r.set(p)
	defer r.set(nil)
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return p.Stop(patience)
	}
}

func (r *replica) set(p *childprocess.Process) {
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
