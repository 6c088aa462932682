package lead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// Run calls work once this process holds the lease, and returns after work has
// returned and the lease has been released. Without a lease (nil) it calls work at
// once.
//
// The first context of work ends when work must begin no more passes: with ctx, or
// when the lease is lost. The second one, passes, ends when running passes must stop
// at once: when the lease is lost. The error of Run says why the lease was lost; it
// is nil if ctx ended, ErrYielded if another process has asked for the lease, and
// ErrGivenAway if GiveAway was called.
//
// An error of work says that something of the work still runs: Run returns it. The lease
// is released all the same, once Held says that nothing of the work may write any more.
// If RBAC forbids the requests about the lease, Run calls fatal with that error instead of
// work, and returns nil.
//
// Run must be called once for a lease. The goroutines that it starts end before it
// returns.
func Run(ctx context.Context, fatal func(error), l *Lease, work func(ctx, passes context.Context) error) error {
	if l == nil {
		return work(ctx, context.WithoutCancel(ctx))
	}
	leading, ended := make(chan struct{}), make(chan struct{})
	elector, err := l.newElector(ctx, leading)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	election, endElection := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	go func() { // ends with the election
		defer close(ended)
		elector.Run(election)
	}()
	defer func() {
		endElection() // the elector releases the lease
		<-ended
	}()
	select {
	case <-leading:
	case err := <-l.refused:
		l.withdraw(ctx)
		fatal(err)
		return nil
	case <-ctx.Done():
		l.withdraw(ctx)
		return nil
	}
	l.log.InfoContext(ctx, "leading")
	return l.guarded(ctx, work)
}

// newElector returns an elector that closes leading when this process has got the
// lease.
func (l *Lease) newElector(ctx context.Context, leading chan<- struct{}) (*leaderelection.LeaderElector, error) {
	// A replica that waits reads the lease at intervals of up to 2.2 times this
	// period, and counts LeaseDuration from the read that saw the last renewal.
	// Both delays together must be no longer than is promised: 2.2 times
	// Config.RetryPeriod.
	period := l.config.RetryPeriod / 2
	if l.part != nil {
		period = l.config.RetryPeriod // nobody waits by reading a shard's Lease: Members lists them
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: l.config.LeaseDuration, RenewDeadline: l.config.RenewDeadline,
		RetryPeriod:     period,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != l.Identity() {
					l.log.InfoContext(ctx, "waiting: the lease is held by another", "holder", holder)
				}
			},
		},
	})
}

// guarded calls work, and ends the contexts of work when the lease is lost. It
// returns why the lease was lost, if it was, and the error of work.
func (l *Lease) guarded(ctx context.Context, work func(ctx, passes context.Context) error) error {
	workCtx, stop := context.WithCancel(ctx)
	defer stop()
	passes, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	done := make(chan struct{})
	var watch sync.WaitGroup
	var lost error
	asked := l.asked
	watch.Go(func() {
		for left := l.left(); left > 0; left = l.left() {
			timer := time.NewTimer(left)
			select {
			case <-done:
				timer.Stop()
				return
			case <-l.taken:
				timer.Stop()
			case <-asked:
				timer.Stop()
				asked = nil
				stop() // running passes end by themselves, and the lease is renewed meanwhile
			case <-timer.C:
			}
		}
		l.lose()
		lost = l.Lost()
		stop()
		cut(lost)
	})
	unfinished := work(workCtx, passes)
	close(done)
	watch.Wait()
	switch {
	case unfinished == nil && lost == nil && ctx.Err() == nil:
		return l.yields()
	case unfinished == nil:
		return lost
	}
	l.leave(unfinished)
	return errors.Join(lost, unfinished)
}
