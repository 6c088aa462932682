package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// abandonAfter is how long a call of the handler is waited for after its context has
// ended because the operator stops.
const abandonAfter = 5 * time.Second

// Work makes passes until ctx ends, and returns when the running passes have
// ended and their Events have been written. passes is the context of the passes:
// they are cut short when it ends, or shutdownTimeout after ctx has ended. A call of
// the handler that doesn't heed the end of its context is given up after a few seconds
// more. The error names such calls, which still run. Work is called once.
func (e *Engine) Work(ctx, passes context.Context, shutdownTimeout time.Duration) error {
	defer e.Close()
	e.lead()
	passCtx, cancel := context.WithCancel(passes)
	defer cancel()
	var workers, overseers sync.WaitGroup
	if e.holdsDeparted() && !e.Config.DryRun {
		e.looking.Store(true)
		workers.Go(func() { e.findDepartedAgain(ctx) })
	}
	workers.Go(func() { e.confirmDeletes(ctx) })
	if e.Shard.Divides() {
		workers.Go(func() { e.keepStamped(ctx) })
	}
	for n := range e.Config.MaxConcurrentSyncs {
		workers.Go(func() {
			ctxOfPasses, worker := e.asWorker(passCtx, n)
			for {
				d, ok := e.queue.Next(ctx)
				if !ok {
					return
				}
				e.queue.Done(d.UID, e.sync(ctxOfPasses, worker, d))
			}
		})
	}
	done := make(chan struct{})
	overseers.Go(func() { e.tellLongPasses(ctx, done) })
	overseers.Go(func() { e.endPasses(ctx, passCtx, cancel, done, shutdownTimeout) })
	workers.Wait()
	close(done)
	overseers.Wait()
	return e.Stuck()
}

// endPasses ends the running passes in time once ctx has ended: their context is
// canceled after the shutdown timeout, unless it ends before, and the calls of the
// handler that don't heed that are given up. It returns when done is closed, which says
// that all passes have ended, or when there is nothing left to end them by.
func (e *Engine) endPasses(ctx, passCtx context.Context, cancel func(), done <-chan struct{}, shutdownTimeout time.Duration) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	e.queue.Close()
	timer := time.NewTimer(shutdownTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-passCtx.Done(): // the lease is lost
	case <-timer.C:
		e.log.Warn("running passes didn't end within the shutdown timeout", "timeout", shutdownTimeout)
		cancel()
	}
	timer.Reset(abandonAfter)
	select {
	case <-done:
	case <-timer.C:
		close(e.stuck.abandoned)
	}
}

// The stuckCalls are those calls of the handler that didn't return although their
// context had ended. It is safe for concurrent use.
type stuckCalls struct {
	abandoned chan struct{} // closed when calls are waited for no longer

	mu struct {
		sync.Mutex
		errs []error // one for each call that was given up
		// relates has the calls of Relate that were left at the handler's timeout, by parent. A channel is
		// closed when its call returns.
		relates map[types.UID]<-chan struct{}
	}
}

// leave notes that the call of Relate for a parent isn't waited for any longer. ended is closed when it
// returns; nil: it is waited for.
func (s *stuckCalls) leave(parent types.UID, ended <-chan struct{}) {
	if ended == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.relates == nil {
		s.mu.relates = map[types.UID]<-chan struct{}{}
	}
	maps.DeleteFunc(s.mu.relates, func(_ types.UID, ended <-chan struct{}) bool { return isClosed(ended) })
	s.mu.relates[parent] = ended
}

// relates reports whether a call of Relate for a parent that was left still runs.
func (s *stuckCalls) relates(parent types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, ok := s.mu.relates[parent]
	return ok && !isClosed(ended)
}

// isClosed reports whether a channel on which nothing is sent is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// giveUp notes a call that was given up, and returns the error about the call.
func (s *stuckCalls) giveUp(name, parent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := fmt.Errorf("handler: %s: %s: didn't return within %v after its context had ended, and still runs", name, parent, abandonAfter)
	s.mu.errs = append(s.mu.errs, err)
	return err
}

// Stuck returns an error that names the calls of the handler which were given up, since
// they didn't heed the end of their context; nil if there are none. Such a call runs
// until the process ends.
func (e *Engine) Stuck() error {
	e.stuck.mu.Lock()
	defer e.stuck.mu.Unlock()
	return errors.Join(e.stuck.mu.errs...)
}
