package lead

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/roperator/roperator/internal/apierror"
)

// A Lease is the lock of the election, and knows until when it is held by this
// process: for RenewDeadline from when the last renewal was begun. It is safe for
// concurrent use.
type Lease struct {
	resourcelock.Interface
	settings Config
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

// NewLease returns a lease that isn't held yet. The configuration has its
// defaults. httpClient is the way to the API server, on which writes need no
// lease; its time limit is set.
func NewLease(settings Config, rc *rest.Config, httpClient *http.Client, log *slog.Logger) (*Lease, error) {
	rc = rest.CopyConfig(rc)
	rc.ContentType = "application/json"
	rc.WarningHandler = rest.NoWarnings{}
	rc.RateLimiter, rc.QPS = nil, -1 // never waits behind children
	// A request that hangs must leave time for another try.
	httpClient.Timeout = max(settings.RenewDeadline/2, time.Second)
	api, err := coordinationv1.NewForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return &Lease{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: settings.Namespace, Name: settings.Name},
			Client:     api,
			LockConfig: resourcelock.ResourceLockConfig{Identity: settings.Identity},
		},
		settings: settings,
		log:      log.With("lease", settings.Namespace+"/"+settings.Name, "identity", settings.Identity),
		refused:  make(chan error, 1),
		taken:    make(chan struct{}),
	}, nil
}

// Held says whether a write may start.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.given && !l.mu.renewed.IsZero() && time.Since(l.mu.renewed) < l.settings.RenewDeadline
}

func (l *Lease) renewedWithin(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.renewed.IsZero() && time.Since(l.mu.renewed) < d
}

// left is for how long the lease is held yet.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.renewed.IsZero() {
		return 0
	}
	return l.settings.RenewDeadline - time.Since(l.mu.renewed)
}

// lose gives the lease up without a request: whoever couldn't renew it needn't
// try to release it.
func (l *Lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.given, l.mu.renewed = true, time.Time{}
}

// takenBy gives the lease up because another has it although it was held here:
// someone deleted or changed the Lease.
func (l *Lease) takenBy(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.given || l.mu.renewed.IsZero() {
		return
	}
	l.mu.given, l.mu.renewed, l.mu.taker = true, time.Time{}, holder
	close(l.taken)
}

// Lost returns why a lease that was held isn't any more, nil before.
func (l *Lease) Lost() error {
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

func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.Lost(); err != nil {
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

func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Lost(); err != nil {
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
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Lost(); err != nil {
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

func (l *Lease) note(ctx context.Context, verb string, begin time.Time, record resourcelock.LeaderElectionRecord, err error) {
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
func (l *Lease) noteFailure(ctx context.Context, verb string, err error) {
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
		case l.refused <- fmt.Errorf("Lease %s: %s: %w", l.Describe(), verb, apierror.WithRule(err)):
		default:
		}
	default:
		l.log.WarnContext(ctx, "lease request failed, retrying", "verb", verb, "error", err)
	}
}
