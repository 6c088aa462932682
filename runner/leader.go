package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// LeaderElection says how replicas take turns, by a Lease
// (coordination.k8s.io/v1). The zero value is usable.
//
// A replica that stops hands over: its running passes end, then it gives up
// the lease, and another takes over within 2.2 times RetryPeriod. After a crash
// that takes up to LeaseDuration longer. One that couldn't renew the lease for
// RenewDeadline, or finds that another has it, starts no further write, and
// stops with an error.
type LeaderElection struct {
	// Namespace and Name are the Lease's. Default: the namespace that the Pod
	// is in, else "default", and the operator's name.
	Namespace, Name string
	// Identity tells this replica from the others. Default: the host's name,
	// which is the Pod's, and something random.
	Identity string
	// LeaseDuration (default 15 s) must be longer than RenewDeadline (10 s), and
	// that longer than 1.2 times RetryPeriod (2 s).
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// withDefaults returns a copy.
func (l LeaderElection) withDefaults(operator string) LeaderElection {
	if l.Namespace == "" {
		l.Namespace = podNamespace()
	}
	if l.Namespace == "" {
		l.Namespace = metav1.NamespaceDefault
	}
	if l.Name == "" {
		l.Name = operator
	}
	if l.Identity == "" {
		host, _ := os.Hostname()
		l.Identity = host + "_" + string(uuid.NewUUID())
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

// podNamespace returns the namespace of the Pod that this process runs in, ""
// outside of one.
func podNamespace() string {
	ns, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(ns))
}

func (l *LeaderElection) validate() error {
	if l == nil {
		return nil
	}
	full := l.withDefaults("operator")
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

// elects says whether a lease is needed: for anything but dry runs.
func (r *Runner) elects() bool {
	if r.opts.LeaderElection == nil {
		return false
	}
	for _, o := range r.operators {
		if !o.cfg.DryRun {
			return true
		}
	}
	r.log.Info("no leader election in a dry run")
	return false
}

// lead calls work while this process holds the lease, and returns when it has
// ended: with nil if ctx did, else why there is no leading. work gets a context
// that ends when it shall begin no more passes, and one that ends when the
// running ones must stop at once. fatal is told of what makes a start pointless.
func (r *Runner) lead(ctx context.Context, fatal func(error), l *lease, work func(ctx, passes context.Context)) error {
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
func (l *lease) guarded(ctx context.Context, work func(ctx, passes context.Context)) error {
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
		lost = l.lost()
		stop()
		cut(lost)
	})
	work(workCtx, passes)
	close(done)
	watch.Wait()
	return lost
}
