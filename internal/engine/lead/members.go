package lead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/engine/shard"
)

// A ShardWork works on one shard that this process holds. The contexts are those of Run:
// when the first one ends, no more passes may begin; when passes ends, running passes must
// stop at once. held says whether the shard may be written for. ShardWork returns when
// nothing of the work runs any more, or an error that says what still does.
type ShardWork func(ctx, passes context.Context, shard int, held interface{ Held() bool }) error

// Members makes this process one of the members that share an operator's shards. Its methods
// may be called concurrently.
type Members struct {
	config     Config // with defaults
	shards     int
	shardsText string // as in annotations
	holder     string // of the fleet's Lease
	fleetLabel string
	memberName string // of the Lease of this member
	rc         *rest.Config
	httpClient func() *http.Client
	log        *slog.Logger
	plainLog   *slog.Logger                // for the Leases of shards, which add to it what they are
	leases     coordinationv1.LeasesGetter // for all but the Leases of shards
	known      *revision.Type              // of Leases; nil: see Compare

	own       *coordination.Lease  // the Lease of this member as last written; nil: unknown; the keeper's
	ownSince  time.Time            // when the last successful renewal of it began; the keeper's
	fleetSeen *sighting            // the fleet's Lease; the keeper's
	seen      map[string]*sighting // the Leases with labelFleet by name, as last listed; Run's
	free      map[int]time.Time    // since when each shard that nobody holds was seen so; Run's

	mu struct {
		sync.Mutex
		term     *term             // the present one; nil: work of the last one has yet to end
		runs     map[int]*shardRun // by shard
		ever     bool              // this process has held a shard
		leaving  bool              // this process takes no shards at present
		holder   string            // of the fleet's Lease, as last seen
		looked   time.Time         // when the request began that last read it
		failure  error             // of the last round of renewals; nil: it succeeded
		failures map[string]string // the last error's text by request, unless it succeeded
		rights   rights            // to requests by verb and name, and to shards
		errs     []error           // of work
	}
	kicked  chan struct{} // wakes the keeper
	failed  chan struct{} // tells Run of an error of work
	refused chan error    // gets the error with which RBAC forbids this process to take part
}

// NewMembers returns a member that doesn't take part yet. config must have its defaults
// filled in. The number of shards is a power of two, and at most 64. httpClient returns a
// new client at each call, whose writes must need no lease: the timeout of each is set.
// NewMembers makes no request.
func NewMembers(config Config, shards int, rc *rest.Config, httpClient func() *http.Client, log *slog.Logger) (*Members, error) {
	if err := shard.Validate(shards); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	base, err := NewLease(config, rc, httpClient(), log)
	if err != nil {
		return nil, err
	}
	m := &Members{
		config: config, shards: shards, shardsText: strconv.Itoa(shards), holder: fleetPrefix + strconv.Itoa(shards),
		fleetLabel: fmt.Sprintf("%016x", hash(config.Name)), memberName: memberName(config.Name, config.Identity),
		rc: rc, httpClient: httpClient, log: base.log.With("shards", shards), plainLog: log, leases: base.leases,
		kicked: make(chan struct{}, 1), failed: make(chan struct{}, 1), refused: make(chan error, 1),
	}
	m.mu.runs, m.mu.failures = map[int]*shardRun{}, map[string]string{}
	return m, nil
}

// Key returns the namespace and the name of the fleet's Lease.
func (m *Members) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.config.Namespace, Name: m.config.Name}
}

// Identity returns the identity of this process in the Leases.
func (m *Members) Identity() string { return m.config.Identity }

// api returns the requests about Leases.
func (m *Members) api() coordinationv1.LeaseInterface {
	return comparingRequests{m.leases.Leases(m.config.Namespace), m.known}
}

// Run takes part until ctx ends, and calls work for each shard that this process holds.
// It returns after all work has returned, and after the Leases were released.
//
// If this process loses a shard, or the fleet's Lease, the contexts of the work end, and the
// process takes part anew once the work has returned. An error of work itself says
// that something of it still runs: Run ends all work then, and returns that error. If RBAC
// has never allowed one of the requests, and this process has never held a shard, Run calls
// fatal with that error, ends, and returns nil. work that returns nil by itself is called anew later.
//
// Run must be called once. The goroutines that it starts end before it returns.
func (m *Members) Run(ctx context.Context, fatal func(error), work ShardWork) error {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var keeper sync.WaitGroup
	keeper.Go(func() { m.keep(keeping) })
	again, err := m.takePart(ctx, fatal, work)
	for again {
		again, err = m.takePart(ctx, fatal, work)
	}
	stop()
	keeper.Wait()
	m.resign(ctx)
	return err
}

// openTerm makes a new term the present one, and returns it with its context. The keeper begins
// it once the fleet's Lease is held.
func (m *Members) openTerm(ctx context.Context) (context.Context, *term) {
	over, t := m.newTerm(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.term, m.mu.leaving = t, false
	return over, t
}

// present returns the present term, nil if there is none.
func (m *Members) present() *term {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.term
}

// takePart takes part in one term. It returns after all work of the term has returned, and
// says whether this process is to take part in another one.
func (m *Members) takePart(ctx context.Context, fatal func(error), work ShardWork) (again bool, err error) {
	over, t := m.openTerm(ctx)
	defer t.lose(context.Canceled)
	m.kick()
	select {
	case <-t.begun:
	case <-over.Done():
	case err := <-m.refused:
		fatal(err)
		return false, nil
	case <-ctx.Done():
		return false, nil
	}
	m.log.InfoContext(ctx, "joined the members")
	run, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(over, stop)()
	watching, unwatch := context.WithCancel(over)
	defer unwatch()
	var watch, runs sync.WaitGroup
	watch.Go(func() { t.watch(watching) })

	m.forgetMembers()
	refused := m.balanceUntil(run, over, t, &runs, work)
	if refused != nil {
		fatal(refused)
	}
	m.leave()
	stop()
	runs.Wait()
	unwatch()
	watch.Wait()
	err = m.workErrors()
	if t.settle() {
		m.log.WarnContext(ctx, "all shards were given up", "error", context.Cause(over))
	}
	return err == nil && refused == nil && ctx.Err() == nil, err
}

// forgetMembers counts the members that were seen before as living. At the beginning of a
// term their Leases may be old only since the API server couldn't be reached.
func (m *Members) forgetMembers() {
	for _, s := range m.othersSeen() {
		s.since, s.first = time.Now(), false
	}
}

// leave has the Lease of this member say that it takes no more shards, so that the others take
// what it releases.
func (m *Members) leave() {
	m.mu.Lock()
	m.mu.leaving = true
	m.mu.Unlock()
	m.kick()
}

// isLeaving says whether this process takes no shards at present.
func (m *Members) isLeaving() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.leaving
}

// kick has the keeper renew the Leases at once.
func (m *Members) kick() {
	select {
	case m.kicked <- struct{}{}:
	default:
	}
}

// refuse passes an error on to Run.
func (m *Members) refuse(err error) {
	select {
	case m.refused <- err:
	default:
	}
}

// pause waits for about d. It returns earlier if ctx ends, or when woken.
func (m *Members) pause(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(wait.Jitter(d, 0.1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}

// workErrors returns the errors of work so far.
func (m *Members) workErrors() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.mu.errs...)
}
