package lead

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A shardRun is a try to take a shard's Lease, and the work that follows.
type shardRun struct {
	lease  *Lease
	term   *term
	stop   context.CancelFunc // ends the try or the work
	ending bool               // stop was called; guarded by Members
	works  bool               // work was called; guarded by Members
	ended  atomic.Bool        // work has returned, and the Lease is about to be released
}

// Held says whether this process may write for the shard: it holds the shard's Lease and,
// with the other members, the fleet's. Once the work has returned, the Lease may be free
// before the API server's answer to its release arrives.
func (r *shardRun) Held() bool { return !r.ended.Load() && r.term.held() && r.lease.Held() }

// Holds says whether this process may write for a shard now.
func (m *Members) Holds(shard int) bool {
	m.mu.Lock()
	r := m.mu.runs[shard]
	m.mu.Unlock()
	return r != nil && r.Held()
}

// Held returns the shards that this process may write for now, in order.
func (m *Members) Held() []int {
	var held []int
	for shard := range m.shards {
		if m.Holds(shard) {
			held = append(held, shard)
		}
	}
	return held
}

// balanceUntil lists the Leases every now and then, and takes and gives up shards as balance
// says, until ctx ends or work fails. It returns an error if RBAC forbids this process to
// take part.
func (m *Members) balanceUntil(ctx, over context.Context, t *term, runs *sync.WaitGroup, work ShardWork) (refused error) {
	for ctx.Err() == nil {
		if m.list(ctx) == nil {
			m.rebalance(ctx, over, t, runs, work)
			m.deleteStale(ctx)
		}
		m.pause(ctx, m.config.RetryPeriod/2, m.failed)
		select {
		case err := <-m.refused:
			return err
		default:
		}
		if m.hasFailed() {
			return nil
		}
	}
	return nil
}

// rebalance takes and gives up shards by what was listed last.
func (m *Members) rebalance(ctx, over context.Context, t *term, runs *sync.WaitGroup, work ShardWork) {
	var living []string
	for _, s := range m.othersSeen() {
		if m.isOurs(s) && s.lease.Annotations[annotationLeaving] == "" && s.seemsLiving(m.config.LeaseDuration) {
			living = append(living, holderOf(s.lease))
		}
	}
	holders, stages := make([]string, m.shards), m.stages()
	for shard := range holders {
		s := m.seen[shardName(m.config.Name, shard)]
		switch {
		case stages[shard] == working:
			holders[shard] = m.config.Identity
		case s != nil && (holderOf(s.lease) == m.config.Identity || !s.expired(m.config.LeaseDuration)):
			holders[shard] = holderOf(s.lease)
		}
	}
	take, give := balance(m.config.Identity, living, holders, stages)
	take = append(take, m.leftAlone(holders, stages, take)...)
	m.mu.Lock()
	for _, shard := range give {
		if r := m.mu.runs[shard]; r != nil {
			r.ending = true
			r.stop()
		}
	}
	m.mu.Unlock()
	if len(take)+len(give) > 0 {
		slices.Sort(take)
		m.log.InfoContext(ctx, "shards move", "members", len(living)+1, "take", take, "giveUp", give)
	}
	for _, shard := range take {
		m.begin(ctx, over, t, shard, runs, work)
	}
}

// leftAlone returns the shards that nobody has taken for two RetryPeriods, and that aren't among take. Members don't always
// agree on who lives: some count one that has just come, and others don't yet. Then each may leave a shard to another
// one. Whoever takes such a shard first has it beyond its part, until a member takes part that is to have it.
func (m *Members) leftAlone(holders []string, stages []stage, take []int) []int {
	var out []int
	free := map[int]time.Time{}
	for shard, holder := range holders {
		if holder != "" || stages[shard] != untouched {
			continue
		}
		since, known := m.free[shard]
		if !known {
			since = time.Now()
		}
		free[shard] = since
		if time.Since(since) >= 2*m.config.RetryPeriod && !slices.Contains(take, shard) {
			out = append(out, shard)
		}
	}
	m.free = free
	return out
}

// stages returns how far this process is with each shard.
func (m *Members) stages() []stage {
	m.mu.Lock()
	defer m.mu.Unlock()
	stages := make([]stage, m.shards)
	for shard, r := range m.mu.runs {
		switch held := r.lease.Held(); {
		case r.ending || r.ended.Load() || r.works && !held:
			stages[shard] = ending
		case held:
			stages[shard] = working
		default:
			stages[shard] = trying
		}
	}
	return stages
}

// newPart returns what the Leases of this fleet's members and shards have in common. expired
// is for a shard's Lease: see part.
func (m *Members) newPart(expired string) *part {
	return &part{fleet: m.fleetLabel, shards: m.shardsText, expired: expired}
}

// begin starts a try to take a shard.
func (m *Members) begin(ctx, over context.Context, t *term, shard int, runs *sync.WaitGroup, work ShardWork) {
	config := m.config
	config.Name = shardName(config.Name, shard)
	lease, err := NewLease(config, m.rc, m.httpClient(), m.plainLog)
	if err != nil {
		m.fail(fmt.Errorf("shard %d: %w", shard, err))
		return
	}
	lease.part = m.newPart("")
	lease.Compare(m.known)
	if s := m.seen[config.Name]; s != nil && s.expired(m.config.LeaseDuration) {
		lease.part.expired = s.lease.ResourceVersion
	}
	ctx, stop := context.WithCancel(ctx)
	r := &shardRun{lease: lease, term: t, stop: stop}
	m.mu.Lock()
	m.mu.runs[shard] = r
	m.mu.Unlock()
	runs.Go(func() {
		defer stop()
		defer m.forget(shard)
		m.run(ctx, over, shard, r, work)
	})
}

// forget forgets the run of a shard, which has ended.
func (m *Members) forget(shard int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.runs, shard)
}

// run calls work once this process holds a shard's Lease, and returns after work has returned
// and the Lease was released.
func (m *Members) run(ctx, over context.Context, shard int, r *shardRun, work ShardWork) {
	var unfinished error
	err := Run(ctx, func(err error) { m.forbidden(ctx, err) }, r.lease, func(ctx, passes context.Context) error {
		m.mu.Lock()
		r.works, m.mu.ever = true, true
		m.mu.Unlock()
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		passes, cut := context.WithCancelCause(passes)
		defer cut(nil)
		defer context.AfterFunc(over, func() {
			lost := context.Cause(over)
			cut(lost)
			stop(lost)
			r.lease.leave(lost) // work that doesn't end mustn't keep the shard from others
		})()
		unfinished = work(ctx, passes, shard, r)
		r.ended.Store(true)
		return unfinished
	})
	switch {
	case unfinished != nil:
		m.fail(fmt.Errorf("shard %d: %w", shard, err))
	case err != nil && over.Err() == nil:
		m.log.WarnContext(ctx, "a shard was lost, and is tried anew", "shard", shard, "error", err)
	}
}

// forbidden notes that RBAC, or a missing namespace, keeps this process from a shard's Lease.
func (m *Members) forbidden(ctx context.Context, err error) {
	m.mu.Lock()
	news := m.mu.failures["shards"] != err.Error()
	never := !m.mu.ever && m.mu.rights.deny("shards")
	m.mu.failures["shards"] = err.Error()
	m.mu.Unlock()
	switch {
	case never:
		m.refuse(err)
	case news:
		m.log.WarnContext(ctx, "a shard can't be taken, retrying", "error", err)
	}
}

// hasFailed says whether there was an error of work.
func (m *Members) hasFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.errs) > 0
}

// fail tells Run of an error of work.
func (m *Members) fail(err error) {
	m.mu.Lock()
	m.mu.errs = append(m.mu.errs, err)
	m.mu.Unlock()
	select {
	case m.failed <- struct{}{}:
	default:
	}
}
