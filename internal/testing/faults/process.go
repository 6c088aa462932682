package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrDead is what a process gets that was killed.
var ErrDead = errors.New("the process is dead")

// A Process is one run of an operator's program. Its methods may be called concurrently, and of
// a nil process, which is one that hasn't begun.
type Process struct {
	Name     string
	stop     context.CancelFunc
	dead     chan struct{} // closed when it was killed
	killed   atomic.Bool
	cutUntil atomic.Int64 // ns since 1970
}

// NewProcess returns a process that stop tells to end.
func NewProcess(name string, stop context.CancelFunc) *Process {
	return &Process{Name: name, stop: stop, dead: make(chan struct{})}
}

// Kill ends the process: nothing that it still tries has an effect, and it gets to know nothing.
func (p *Process) Kill() {
	if p != nil && p.killed.CompareAndSwap(false, true) {
		close(p.dead)
		p.stop()
	}
}

// Killed says whether the process was killed.
func (p *Process) Killed() bool { return p.killed.Load() }

// Dead returns a channel that is closed when the process is killed.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// Stop tells the process to end.
func (p *Process) Stop() {
	if p != nil {
		p.stop()
	}
}

// Cut keeps the process from its lease for a while. 0 ends that.
func (p *Process) Cut(d time.Duration) {
	switch {
	case p == nil:
	case d == 0:
		p.cutUntil.Store(0)
	default:
		p.cutUntil.Store(time.Now().Add(d).UnixNano())
	}
}

// IsCut says whether the process can't reach its lease.
func (p *Process) IsCut() bool { return time.Now().UnixNano() < p.cutUntil.Load() }

// Sleep waits. It returns an error if the context or the process ends meanwhile, or has ended.
func (p *Process) Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-p.dead:
		}
	}
	if p.Killed() {
		return ErrDead
	}
	return ctx.Err()
}
