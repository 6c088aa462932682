package lead

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/revision"
)

// A Lease is the lock of the election. It knows whether this process holds it: for
// RenewDeadline from the moment at which the last successful renewal began. Its
// methods may be called concurrently.
type Lease struct {
	resourcelock.Interface
	config Config // with defaults
	log    *slog.Logger
	leases coordinationv1.LeasesGetter // without the annotations of a takeover
	known  *revision.Type              // of Leases; nil: see Compare
	own    claim                       // what TakeOver was called with; zero: it wasn't
	part   *part                       // set if this is a shard's Lease, which nobody takes over; nil: it isn't
	first  struct {                    // how the Lease of the present holder was first seen; for ask alone
		holder  string
		renewed time.Time
	}

	mu struct {
		sync.Mutex
		renewed time.Time // when the last renewal began; zero: not held
		ever    bool      // this process has held the lease
		gone    bool      // this process has lost the lease for good
		taker   string    // the identity that took the lease from this process, if one was seen
		running error     // says what still runs of the work, though the lease was given up; nil: nothing does
		leaving bool      // the lease was given up, and this process may still tell so: by releasing it
		failure string    // the text of the last request's error; empty: it succeeded
		rights  rights    // to the verbs of requests
		holder  string    // who was last seen to hold the lease; empty: nobody was

		yields error // why this process ends its work though it holds the lease; nil: it doesn't
	}
	refused chan error    // gets the error with which RBAC forbids this process to take part
	taken   chan struct{} // closed when another process has taken the lease from this one
	asked   chan struct{} // closed with mu.yields: the work must end
}

// NewLease returns a lease that isn't held yet. config must have its defaults filled
// in. httpClient sends the requests to the API server of rc: its writes must need no
// lease, and NewLease sets its timeout. NewLease makes no request.
func NewLease(config Config, rc *rest.Config, httpClient *http.Client, log *slog.Logger) (*Lease, error) {
	rc = rest.CopyConfig(rc)
	rc.ContentType = "application/json"
	rc.WarningHandler = rest.NoWarnings{}
	rc.RateLimiter, rc.QPS = nil, -1 // requests about the lease never wait behind those about children
	// A request that hangs must leave time for another try.
	httpClient.Timeout = max(config.RenewDeadline/2, time.Second)
	api, err := coordinationv1.NewForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l := &Lease{
		config:  config,
		log:     log.With("lease", config.Namespace+"/"+config.Name, "identity", config.Identity),
		leases:  api,
		refused: make(chan error, 1),
		taken:   make(chan struct{}),
		asked:   make(chan struct{}),
	}
	l.Interface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name},
		Client:     annotatedLeases{api, l},
		LockConfig: resourcelock.ResourceLockConfig{Identity: config.Identity},
	}
	return l, nil
}

// Key returns the namespace and the name of the Lease.
func (l *Lease) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.config.Namespace, Name: l.config.Name}
}

// RenewDeadline returns for how long this process leads after a renewal.
func (l *Lease) RenewDeadline() time.Duration { return l.config.RenewDeadline }

// Held says whether this process holds the lease, and so may start a write.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.gone && !l.mu.renewed.IsZero() && elapsed(l.mu.renewed) < l.config.RenewDeadline
}

// Seen returns who was last seen to hold the lease, "" if nobody was, and when this process last
// renewed it, the zero time if it doesn't hold it.
func (l *Lease) Seen() (holder string, renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.holder, l.mu.renewed
}

// see notes who holds the lease.
func (l *Lease) see(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.holder = holder
}

// elapsed returns how much time has passed since t. While a machine is suspended, only one
// of its clocks may go on: the one that has gone further counts. A lease that expires too
// early is lost, and nothing else is; one that is held for too long lets two processes write.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// renewedWithin says whether the last renewal began less than d ago.
func (l *Lease) renewedWithin(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.renewed.IsZero() && elapsed(l.mu.renewed) < d
}

// left returns for how long the lease will be held without another renewal; zero or
// less if it isn't held.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.renewed.IsZero() {
		return 0
	}
	return l.config.RenewDeadline - elapsed(l.mu.renewed)
}

// lose gives the lease up. It makes no request: a process that couldn't renew the
// lease can't release it either.
func (l *Lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.gone, l.mu.renewed = true, time.Time{}
}

// leave gives the lease up although something of the work still runs, as unfinished
// says. From now on Held says no, so that nothing of the work can write. Therefore the
// election may release the lease, unless it was lost before.
func (l *Lease) leave(unfinished error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.gone {
		l.mu.gone, l.mu.renewed, l.mu.running, l.mu.leaving = true, time.Time{}, unfinished, true
	}
}

// mayRelease says whether the lease was given up by leave, and nobody has taken it since,
// as far as this process knows.
func (l *Lease) mayRelease() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.leaving
}

// takenBy gives the lease up because another process, holder, has it although this
// process held it. That happens if someone deletes or changes the Lease object.
func (l *Lease) takenBy(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.leaving = false
	if l.mu.gone || l.mu.renewed.IsZero() {
		return
	}
	l.mu.gone, l.mu.renewed, l.mu.taker = true, time.Time{}, holder
	close(l.taken)
}

// Lost returns an error that says why this process has lost the lease, nil if it
// hasn't.
func (l *Lease) Lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.mu.gone:
		return nil
	case l.mu.running != nil:
		return fmt.Errorf("Lease %s: given up: %w", l.Describe(), l.mu.running)
	case l.takesOver():
		return fmt.Errorf("Lease %s: lost: it wasn't renewed in time (did the machine sleep?), so the deployed operator works again; start anew to take it over again", l.Describe())
	case l.mu.taker != "":
		return fmt.Errorf("Lease %s: lost: %s took it; was the Lease deleted or changed by hand?", l.Describe(), l.mu.taker)
	default:
		return fmt.Errorf("Lease %s: lost: it wasn't renewed for %v; another replica may lead now", l.Describe(), l.config.RenewDeadline)
	}
}

// The methods below implement resourcelock.Interface. Only the election calls them.

// Get reads the Lease. It gives the lease up if another process is seen to hold it.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.Lost(); err != nil && !l.mayRelease() {
		return nil, nil, err
	}
	record, raw, err := l.Interface.Get(ctx)
	if !apierrors.IsNotFound(err) {
		l.noteFailure(ctx, "get", err)
	}
	if err == nil {
		l.see(record.HolderIdentity)
	}
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.takenBy(record.HolderIdentity)
	}
	return record, raw, err
}

// Create creates the Lease, with this process as its holder.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Lost(); err != nil {
		return err
	}
	if l.takesOver() {
		l.log.WarnContext(ctx, "there is no Lease to take over: no operator that elects a leader has worked here; one that runs without --leader-elect would write beside this process")
	}
	begin := time.Now()
	err := l.Interface.Create(ctx, record)
	if apierrors.IsNotFound(err) { // the namespace, as nothing else can be missing
		l.refuse(fmt.Errorf("Lease %s: create: %w; create the namespace, or name that of the deployed operator by --leader-elect-resource-namespace", l.Describe(), err))
	}
	l.note(ctx, "create", begin, record, err)
	return err
}

// Update takes, renews or releases the lease. It makes no request for a renewal if the
// last one began less than three quarters of RetryPeriod ago, since the elector asks
// twice in that period. It makes none, and returns an error, if the lease was lost:
// renewals for passes that don't end would keep the other replicas waiting. A lease that
// was given up by leave can still be released.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Lost(); err != nil && (record.HolderIdentity != "" || !l.mayRelease()) {
		return err
	}
	begin := time.Now()
	if record.HolderIdentity == l.Identity() && l.renewedWithin(l.config.RetryPeriod*3/4) {
		return nil
	}
	err := l.Interface.Update(ctx, record)
	l.note(ctx, "update", begin, record, err)
	return err
}

// note notes the result of a write of the Lease that began at begin.
func (l *Lease) note(ctx context.Context, verb string, begin time.Time, record resourcelock.LeaderElectionRecord, err error) {
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // another process was faster
		l.noteFailure(ctx, verb, err)
	}
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.holder = record.HolderIdentity
	switch {
	case record.HolderIdentity != l.Identity():
		l.mu.renewed = time.Time{}
	case !l.mu.gone:
		l.mu.renewed, l.mu.ever = begin, true
	}
}

// request returns what a request about the Lease asks for.
func (l *Lease) request(verb string) apierror.Request {
	return apierror.Request{Verb: verb, Group: coordination.GroupName, Resource: "leases", Name: l.config.Name}
}

// noteFailure notes the result of a request. It logs an error unless the last request
// failed with the same one. If RBAC has never allowed the request, and this process has
// never held the lease, it passes the error on to Run.
func (l *Lease) noteFailure(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil && err != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	news, never := text != l.mu.failure, false
	switch {
	case err == nil:
		l.mu.rights.allow(verb)
	case apierrors.IsForbidden(err) && !l.mu.ever:
		never = l.mu.rights.deny(verb)
	}
	l.mu.failure = text
	l.mu.Unlock()
	switch {
	case never:
		l.refuse(fmt.Errorf("Lease %s: %s: %w", l.Describe(), verb, apierror.WithRule(err, l.request(verb))))
	case err != nil && news:
		l.log.WarnContext(ctx, "lease request failed, retrying", "verb", verb, "error", apierror.WithRule(err, l.request(verb)))
	}
}
