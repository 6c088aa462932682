package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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

// A lease is the lock of the election, and knows until when it is held by
// this process: for RenewDeadline from when the last renewal was begun.
type lease struct {
	resourcelock.Interface
	settings LeaderElection
	log      *slog.Logger

	mu struct {
		sync.Mutex
		renewed time.Time // zero: not held
		ever    bool      // held at least once
		given   bool      // away for good
		taker   string    // who holds it instead, if that was seen
		failure string    // of the last request, as it was logged
	}
	refused chan error    // RBAC doesn't allow to take part
	taken   chan struct{} // closed when another was seen to hold what was held here
}

func (r *Runner) newLease(l *link) (*lease, error) {
	settings := r.opts.LeaderElection.withDefaults(r.operators[0].cfg.Name)
	rc := rest.CopyConfig(l.config)
	rc.ContentType = "application/json"
	rc.WarningHandler = rest.NoWarnings{}
	rc.RateLimiter, rc.QPS = nil, -1       // never waits behind children
	httpClient := l.as(settings.Name, nil) // not guarded: there is no lease yet
	// A request that hangs must leave time for another try.
	httpClient.Timeout = max(settings.RenewDeadline/2, time.Second)
	api, err := coordinationv1.NewForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	created := &lease{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: settings.Namespace, Name: settings.Name},
			Client:     api,
			LockConfig: resourcelock.ResourceLockConfig{Identity: settings.Identity},
		},
		settings: settings,
		log:      r.log.With("lease", settings.Namespace+"/"+settings.Name, "identity", settings.Identity),
		refused:  make(chan error, 1),
		taken:    make(chan struct{}),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.lease = created
	return created, nil
}

// held says whether a write may start.
func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.given && !l.mu.renewed.IsZero() && time.Since(l.mu.renewed) < l.settings.RenewDeadline
}

func (l *lease) renewedWithin(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.renewed.IsZero() && time.Since(l.mu.renewed) < d
}

// left is for how long the lease is held yet.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.renewed.IsZero() {
		return 0
	}
	return l.settings.RenewDeadline - time.Since(l.mu.renewed)
}

// lose gives the lease up without a request: whoever couldn't renew it needn't
// try to release it.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.given, l.mu.renewed = true, time.Time{}
}

// takenBy gives the lease up because another has it although it was held here:
// someone deleted or changed the Lease.
func (l *lease) takenBy(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.given || l.mu.renewed.IsZero() {
		return
	}
	l.mu.given, l.mu.renewed, l.mu.taker = true, time.Time{}, holder
	close(l.taken)
}

// lost returns why a lease that was held isn't any more, nil before.
func (l *lease) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.mu.given:
		return nil
	case l.mu.taker != "":
		return fmt.Errorf("Lease %s: lost: %s took it; was the Lease deleted or changed by hand?", l.Describe(), l.mu.taker)
	default:
		return fmt.Errorf("Lease %s: lost: it wasn't renewed for %v; another replica may lead now", l.Describe(), l.settings.RenewDeadline)
	}
}

// The methods below are those of the lock.

func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.lost(); err != nil {
		return nil, nil, err
	}
	record, raw, err := l.Interface.Get(ctx)
	if !apierrors.IsNotFound(err) {
		l.noteFailure(ctx, "get", err)
	}
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.takenBy(record.HolderIdentity)
	}
	return record, raw, err
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.lost(); err != nil {
		return err
	}
	begin := time.Now()
	err := l.Interface.Create(ctx, record)
	l.note(ctx, "create", begin, record, err)
	return err
}

// Update makes no request if the lease has been renewed less than RetryPeriod
// ago: the election looks more often. Nor if the lease was lost: renewed for
// passes that don't end, it would keep the other replicas waiting.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.lost(); err != nil {
		return err
	}
	begin := time.Now()
	if record.HolderIdentity == l.Identity() && l.renewedWithin(l.settings.RetryPeriod*3/4) {
		return nil
	}
	err := l.Interface.Update(ctx, record)
	l.note(ctx, "update", begin, record, err)
	return err
}

func (l *lease) note(ctx context.Context, verb string, begin time.Time, record resourcelock.LeaderElectionRecord, err error) {
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // another was faster
		l.noteFailure(ctx, verb, err)
	}
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case record.HolderIdentity != l.Identity():
		l.mu.renewed = time.Time{}
	case !l.mu.given:
		l.mu.renewed, l.mu.ever = begin, true
	}
}

// noteFailure logs a failure once until it changes. What RBAC denies to who
// never held the lease ends the start.
func (l *lease) noteFailure(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil && err != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	news, ever := text != l.mu.failure, l.mu.ever
	l.mu.failure = text
	l.mu.Unlock()
	switch {
	case err == nil || !news:
	case apierrors.IsForbidden(err) && !ever:
		select {
		case l.refused <- fmt.Errorf("Lease %s: %s: %w", l.Describe(), verb, withRule(err)):
		default:
		}
	default:
		l.log.WarnContext(ctx, "lease request failed, retrying", "verb", verb, "error", err)
	}
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
