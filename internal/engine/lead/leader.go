package lead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/internal/process"
)

// A Config says how replicas take turns: see runner.LeaderElection.
type Config struct {
	Namespace, Name                           string
	Identity                                  string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// WithDefaults returns the configuration of an operator's election with every
// default filled in.
func (l Config) WithDefaults(operator string) Config {
	if l.Namespace == "" {
		l.Namespace = process.PodNamespace()
	}
	if l.Namespace == "" {
		l.Namespace = metav1.NamespaceDefault
	}
	if l.Name == "" {
		l.Name = operator
	}
	if l.Identity == "" {
		l.Identity = process.Hostname() + "_" + string(uuid.NewUUID())
	}
	if l.LeaseDuration == 0 {
		l.LeaseDuration = 15 * time.Second
	}
	if l.RenewDeadline == 0 {
		l.RenewDeadline = 10 * time.Second
	}
	if l.RetryPeriod == 0 {
		l.RetryPeriod = 2 * time.Second
	}
	return l
}

// Validate returns what is wrong with the configuration.
func (l Config) Validate() error {
	full := l.WithDefaults("operator")
	switch {
	case full.LeaseDuration < 0 || full.RenewDeadline < 0 || full.RetryPeriod < 0:
		return errors.New("runner: LeaderElection: a duration is negative")
	case full.LeaseDuration <= full.RenewDeadline:
		return fmt.Errorf("runner: LeaderElection: LeaseDuration, %v, must be longer than RenewDeadline, %v", full.LeaseDuration, full.RenewDeadline)
	case float64(full.RenewDeadline) <= leaderelection.JitterFactor*float64(full.RetryPeriod):
		return fmt.Errorf("runner: LeaderElection: RenewDeadline, %v, must be longer than %v times RetryPeriod, %v",
			full.RenewDeadline, leaderelection.JitterFactor, full.RetryPeriod)
	case full.LeaseDuration < time.Second:
		return fmt.Errorf("runner: LeaderElection: LeaseDuration, %v, must be a second or more: a Lease counts in seconds", full.LeaseDuration)
	}
	return nil
}

// Run calls work while this process holds the lease, and returns when work has
// ended: with nil if ctx did, else why there is no leading. work gets a context
// that ends when it shall begin no more passes, and one that ends when the running
// ones must stop at once. fatal is told of what makes a start pointless. Without
// a lease (nil) this process leads from the start.
func Run(ctx context.Context, fatal func(error), l *Lease, work func(ctx, passes context.Context)) error {
	if l == nil {
		work(ctx, context.WithoutCancel(ctx))
		return nil
	}
	election, endElection := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	leading, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: l.settings.LeaseDuration, RenewDeadline: l.settings.RenewDeadline,
		// Who waits looks at the lease at intervals of up to 2.2 times this,
		// and counts LeaseDuration from when it saw the last renewal. That it
		// comes late twice must add up to no more than is promised.
		RetryPeriod:     l.settings.RetryPeriod / 2,
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
	if err != nil {
		endElection()
		return fmt.Errorf("lease: %w", err)
	}
	go func() { // ends with the election
		defer close(ended)
		elector.Run(election)
	}()
	defer func() {
		endElection() // which releases the lease
		<-ended
	}()
	select {
	case <-leading:
	case err := <-l.refused:
		fatal(err)
		return nil
	case <-ctx.Done():
		return nil
	}
	l.log.InfoContext(ctx, "leading")
	return l.guarded(ctx, work)
}

// guarded calls work, and cuts it short if the lease isn't renewed in time.
func (l *Lease) guarded(ctx context.Context, work func(ctx, passes context.Context)) error {
	workCtx, stop := context.WithCancel(ctx)
	defer stop()
	passes, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	done := make(chan struct{})
	var watch sync.WaitGroup
	var lost error
	watch.Go(func() {
		for left := l.left(); left > 0; left = l.left() {
			timer := time.NewTimer(left)
			select {
			case <-done:
				timer.Stop()
				return
			case <-l.taken:
				timer.Stop()
			case <-timer.C:
			}
		}
		l.lose()
		lost = l.Lost()
		stop()
		cut(lost)
	})
	work(workCtx, passes)
	close(done)
	watch.Wait()
	return lost
}
