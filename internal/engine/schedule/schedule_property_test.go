package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/budget"
)

// A schedModel states the scheduler's promises for one parent as directly as
// possible: the time from which the next pass may start, and must start if a
// worker is free.
type schedModel struct {
	running   bool
	changed   bool // fresh add since the last pass started
	touched   bool // any add since the last pass started
	at        time.Time
	class     Priority
	later     time.Time // when a resync makes a parent fresh that waits in the backlog
	failures  int
	throttles int
	floor     time.Time
	edited    bool      // edited since the last pass started
	early     time.Time // what floor becomes if an edit ends the throttle
}

// edit is add for an edit of the parent itself.
func (m *schedModel) edit(now time.Time) {
	if !m.running && m.throttles > 0 {
		m.throttles, m.floor = 0, m.early
	}
	m.edited = m.edited || m.running
	m.add(now, Fresh)
}

func (m *schedModel) add(now time.Time, p Priority) {
	troubled := m.failures > 0 || m.throttles > 0
	if !m.running && p == Backlog && troubled {
		if m.due(now) {
			m.touched = true
		}
		return
	}
	m.touched, m.changed = true, m.changed || p == Fresh
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
		m.at, m.class = at, Backlog
	default:
		m.at, m.class, m.later = at, p, m.at
	}
}

func (m *schedModel) due(now time.Time) bool {
	return !m.running && !m.at.IsZero() && !m.at.After(now)
}

func (m *schedModel) done(now time.Time, o Outcome, maxBackoff time.Duration) {
	wait := func(base time.Duration, n int) time.Duration {
		for ; n > 1 && base < maxBackoff; n-- {
			base *= 2
		}
		return min(base, maxBackoff)
	}
	ran := m.class
	changed, touched, edited := m.changed, m.touched, m.edited
	failures, throttles := m.failures+1, m.throttles+1
	if o.Forget || (!o.Err && !o.Permanent) {
		failures = 0
	}
	if o.Forget || !o.Throttled {
		throttles = 0
	}
	*m = schedModel{failures: failures, throttles: throttles, changed: changed, touched: touched}
	errWait, loopWait := wait(100*time.Millisecond, failures), wait(time.Second, throttles)
	if o.RetryAfter > 0 {
		errWait = o.RetryAfter
	}
	retried := !o.Permanent || o.Again || o.RetryAfter > 0
	switch {
	case o.Forget && !touched:
	case throttles > 0:
		d := loopWait
		if failures > 0 {
			d = max(d, errWait)
		}
		m.floor = now.Add(d)
		early := 500 * time.Millisecond
		if failures > 0 {
			early = max(early, min(errWait, time.Second))
		}
		m.early = now.Add(min(d, early))
		switch {
		case changed && edited:
			m.throttles, m.floor = 0, m.early
			m.at, m.class = m.early, Fresh
		case changed || retried:
			m.at = m.floor
		case o.Resync > 0:
			m.at, m.class = now.Add(max(o.Resync, d)), Fresh
		}
	case failures > 0:
		m.floor = now.Add(min(errWait, time.Second))
		switch {
		case changed:
			m.at, m.class = m.floor, Fresh
		case retried:
			m.at = now.Add(errWait)
			if failures <= 3 {
				m.class = ran
			}
		case o.Resync > 0:
			m.at, m.class = now.Add(max(o.Resync, m.floor.Sub(now))), Fresh
		}
	case touched || (o.Again && !o.Forget):
		m.at = now
		if changed || (o.Again && !o.Forget && ran == Fresh) {
			m.class = Fresh
		}
	default:
		for _, d := range []time.Duration{o.Resync, o.RetryAfter} {
			if d > 0 && (m.at.IsZero() || now.Add(d).Before(m.at)) {
				m.at, m.class = now.Add(d), Fresh
			}
		}
	}
}

// The scheduler does what the model says, for random events in random order: no
// change is lost, and no pass runs early, late or twice at once.
func TestSchedulerProperty(t *testing.T) {
	for seed := range budget.Runs(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { schedProperty(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func schedProperty(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	const maxBackoff = 5 * time.Second
	s := New(maxBackoff, noJitter)
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
			uid, p := pick(), Priority(rnd.IntN(2))
			if models[uid] == nil {
				models[uid] = &schedModel{}
			}
			if maybe(3) {
				s.Add(uid, Fresh, "", Edited)
				models[uid].edit(now)
			} else {
				s.Add(uid, p, "", 0)
				models[uid].add(now, p)
			}
		case 1:
			if d, ok := s.take(t.Context()); ok {
				m := models[d.UID]
				require.NotNil(t, m)
				require.True(t, m.due(now), "%s: no pass twice at once, or early", d.UID)
				require.Equal(t, m.at, now.Add(-d.Waited), d.UID)
				if !m.later.IsZero() && !m.later.After(now) {
					m.class = Fresh
				}
				require.Equal(t, m.class, d.Priority, d.UID)
				m.running, m.changed, m.touched, m.edited = true, false, false, false
				running = append(running, d.UID)
			}
		case 2:
			if len(running) > 0 {
				i := rnd.IntN(len(running))
				o := Outcome{Err: maybe(3), Permanent: maybe(6), Again: maybe(3), Throttled: maybe(4), Forget: maybe(8)}
				if maybe(2) {
					o.Resync = span()
				}
				if maybe(3) {
					o.RetryAfter = span()
				}
				s.Done(running[i], o)
				models[running[i]].done(now, o, maxBackoff)
				running = append(running[:i], running[i+1:]...)
			}
		case 3:
			schedElapse(span())
		}
		schedSame(t, s, models)
	}
}

// schedSame requires that the parents due in the scheduler are those due in the
// models, and that the scheduler remembers no others.
func schedSame(t *testing.T, s *Scheduler, models map[types.UID]*schedModel) {
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
	running, dueNow, _ := s.Activity()
	require.Equal(t, wantRunning, running)
	require.Equal(t, wantDue, dueNow)
	require.Len(t, s.mu.parents, wantKept)
	if !wantTimers.IsZero() { // a queued parent's resync timer may come before
		require.False(t, s.mu.armed.IsZero())
		require.False(t, s.mu.armed.After(wantTimers))
	}
}
