package runner

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A schedModel is what the scheduler promises for one parent, written down as
// directly as possible: when its next pass may start, and must if a worker is
// free.
type schedModel struct {
	running   bool
	changed   bool // fresh add since the last pass started
	touched   bool // any add since then
	at        time.Time
	class     priority
	later     time.Time // a resync that comes while it waits in the backlog makes it fresh
	failures  int
	throttles int
	floor     time.Time
}

func (m *schedModel) add(now time.Time, p priority) {
	troubled := m.failures > 0 || m.throttles > 0
	if !m.running && p == backlog && troubled {
		if m.due(now) {
			m.touched = true
		}
		return
	}
	m.touched, m.changed = true, m.changed || p == fresh
	if m.running {
		return
	}
	was := m.due(now)
	at := now
	if m.floor.After(now) {
		at = m.floor
	}
	switch {
	case was:
		m.class = max(m.class, p)
	case m.floor.After(now) && m.throttles > 0:
		m.at, m.class = at, backlog
	default:
		m.at, m.class, m.later = at, p, m.at
	}
}

func (m *schedModel) due(now time.Time) bool {
	return !m.running && !m.at.IsZero() && !m.at.After(now)
}

func (m *schedModel) done(now time.Time, o outcome, maxBackoff time.Duration) {
	wait := func(base time.Duration, n int) time.Duration {
		for ; n > 1 && base < maxBackoff; n-- {
			base *= 2
		}
		return min(base, maxBackoff)
	}
	ran := m.class
	changed, touched := m.changed, m.touched
	failures, throttles := m.failures+1, m.throttles+1
	if o.Forget || (!o.Err && !o.Permanent) {
		failures = 0
	}
	if o.Forget || !o.Throttled {
		throttles = 0
	}
	*m = schedModel{failures: failures, throttles: throttles, changed: changed, touched: touched}
	errWait, loopWait := wait(100*time.Millisecond, failures), wait(time.Second, throttles)
	switch {
	case o.Forget && !touched:
	case throttles > 0:
		d := loopWait
		if failures > 0 {
			d = max(d, errWait)
		}
		m.floor = now.Add(d)
		switch {
		case changed || !o.Permanent || o.Again:
			m.at = m.floor
		case o.Resync > 0:
			m.at, m.class = now.Add(max(o.Resync, d)), fresh
		}
	case failures > 0:
		m.floor = now.Add(min(errWait, time.Second))
		switch {
		case changed:
			m.at, m.class = m.floor, fresh
		case !o.Permanent || o.Again:
			m.at = now.Add(errWait)
			if failures <= 3 {
				m.class = ran
			}
		case o.Resync > 0:
			m.at, m.class = now.Add(max(o.Resync, m.floor.Sub(now))), fresh
		}
	case touched || (o.Again && !o.Forget):
		m.at = now
		if changed || (o.Again && !o.Forget && ran == fresh) {
			m.class = fresh
		}
	default:
		for _, d := range []time.Duration{o.Resync, o.RetryAfter} {
			if d > 0 && (m.at.IsZero() || now.Add(d).Before(m.at)) {
				m.at, m.class = now.Add(d), fresh
			}
		}
	}
}

// The scheduler does what the model says, whatever happens in whatever order:
// nothing is lost, nothing runs early, late or twice at once.
func TestSchedulerProperty(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { schedProperty(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func schedProperty(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	const maxBackoff = 5 * time.Second
	s := newScheduler(maxBackoff, noJitter)
	models := map[types.UID]*schedModel{}
	var running []types.UID
	pick := func() types.UID { return types.UID(fmt.Sprint("p", rnd.IntN(6))) }
	steps := []time.Duration{0, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}
	maybe := func(n int) bool { return rnd.IntN(n) == 0 }
	span := func() time.Duration { return steps[rnd.IntN(len(steps))] }
	for range 400 {
		now := time.Now()
		switch rnd.IntN(4) {
		case 0:
			uid, p := pick(), priority(rnd.IntN(2))
			if models[uid] == nil {
				models[uid] = &schedModel{}
			}
			s.add(uid, p, "")
			models[uid].add(now, p)
		case 1:
			if d, ok := s.take(t.Context()); ok {
				m := models[d.UID]
				require.NotNil(t, m)
				require.True(t, m.due(now), "%s: no pass twice at once, or early", d.UID)
				require.Equal(t, m.at, now.Add(-d.Waited), d.UID)
				if !m.later.IsZero() && !m.later.After(now) {
					m.class = fresh
				}
				require.Equal(t, m.class, d.Priority, d.UID)
				m.running, m.changed, m.touched = true, false, false
				running = append(running, d.UID)
			}
		case 2:
			if len(running) > 0 {
				i := rnd.IntN(len(running))
				o := outcome{Err: maybe(3), Permanent: maybe(6), Again: maybe(3), Throttled: maybe(4), Forget: maybe(8)}
				if maybe(2) {
					o.Resync = span()
				}
				if maybe(3) {
					o.RetryAfter = span()
				}
				s.done(running[i], o)
				models[running[i]].done(now, o, maxBackoff)
				running = append(running[:i], running[i+1:]...)
			}
		case 3:
			schedElapse(span())
		}
		schedSame(t, s, models)
	}
}

// schedSame requires that the scheduler has due what the models have due, and
// remembers nothing else.
func schedSame(t *testing.T, s *scheduler, models map[types.UID]*schedModel) {
	t.Helper()
	now, wantDue, wantRunning, wantKept, wantTimers := time.Now(), 0, 0, 0, time.Time{}
	for _, m := range models {
		switch {
		case m.running:
			wantRunning++
			if m.touched {
				wantDue++
			}
		case m.due(now):
			wantDue++
		case !m.at.IsZero() && (wantTimers.IsZero() || m.at.Before(wantTimers)):
			wantTimers = m.at
		}
		if m.running || !m.at.IsZero() || m.failures > 0 || m.throttles > 0 {
			wantKept++
		}
	}
	running, dueNow, _ := s.activity()
	require.Equal(t, wantRunning, running)
	require.Equal(t, wantDue, dueNow)
	require.Len(t, s.mu.parents, wantKept)
	if !wantTimers.IsZero() { // a queued parent's resync timer may come before
		require.False(t, s.mu.armed.IsZero())
		require.False(t, s.mu.armed.After(wantTimers))
	}
}

// Real goroutines and real time: for the race detector, and for lost wake-ups.
func TestSchedulerStress(t *testing.T) {
	const workers, parents, adders, adds = 8, 200, 4, 25_000
	s := newScheduler(3*time.Millisecond, nil)
	var version, seen [parents]atomic.Int64
	var busy [parents]atomic.Bool
	index := map[types.UID]int{}
	for i := range parents {
		index[types.UID(fmt.Sprint("p", i))] = i
	}
	var working, adding sync.WaitGroup
	for range workers {
		working.Go(func() {
			for d, ok := s.next(t.Context()); ok; d, ok = s.next(t.Context()) {
				i := index[d.UID]
				if !busy[i].CompareAndSwap(false, true) {
					t.Errorf("%s runs twice at once", d.UID)
				}
				o := outcome{Err: rand.IntN(4) == 0, Again: rand.IntN(8) == 0, Throttled: rand.IntN(16) == 0}
				if v := version[i].Load(); !o.Err {
					seen[i].Store(v)
				}
				busy[i].Store(false)
				s.done(d.UID, o)
			}
		})
	}
	for range adders {
		adding.Go(func() {
			for range adds {
				i := rand.IntN(parents)
				version[i].Add(1)
				s.add(types.UID(fmt.Sprint("p", i)), fresh, "")
			}
		})
	}
	adding.Wait()
	require.Eventually(t, func() bool {
		for i := range parents {
			if seen[i].Load() != version[i].Load() {
				return false
			}
		}
		return true
	}, hang, time.Millisecond, "every parent's last change is seen by a pass that succeeds")
	s.close()
	working.Wait()
}

func BenchmarkScheduler(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		uids := make([]types.UID, n)
		for i := range uids {
			uids[i] = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
		}
		b.Run(fmt.Sprintf("queued=%d", n), func(b *testing.B) { // every parent always is due
			s := newScheduler(0, nil)
			for _, uid := range uids {
				s.add(uid, fresh, "parent")
			}
			b.ReportAllocs()
			for b.Loop() {
				d, _ := s.next(b.Context())
				s.done(d.UID, outcome{})
				s.add(d.UID, fresh, "parent")
			}
		})
		b.Run(fmt.Sprintf("timers=%d", n), func(b *testing.B) { // every parent waits for a resync
			s := newScheduler(0, nil)
			for i, uid := range uids {
				s.add(uid, fresh, "parent")
				d, _ := s.next(b.Context())
				s.done(d.UID, outcome{Resync: time.Hour + time.Duration(i)*time.Millisecond})
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.add(uids[i%n], fresh, "parent")
				d, _ := s.next(b.Context())
				s.done(d.UID, outcome{Resync: time.Hour})
				i += 7919
			}
		})
	}
}
