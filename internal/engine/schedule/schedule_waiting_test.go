package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestSchedulerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, noJitter)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wait := func(ctx context.Context) {
			wg.Go(func() {
				if d, ok := s.Next(ctx); ok {
					t.Errorf("took %s", d.UID)
				}
			})
		}
		wait(ctx)
		synctest.Wait()
		cancel() // ends the one that waits
		wg.Wait()

		s.Add("a", Fresh, "", 0)
		_, ok := s.Next(ctx)
		require.False(t, ok, "an ended context takes no work")
		_, ok = s.Next(t.Context())
		require.True(t, ok, "it is still there for others")

		for range 4 {
			wait(t.Context())
		}
		synctest.Wait()
		s.Close() // ends all that wait
		s.Close()
		wg.Wait()
		s.Done("a", Outcome{Err: true})
		s.Add("b", Fresh, "", 0)
		_, ok = s.Next(t.Context())
		require.False(t, ok, "nothing starts after close")
		running, _, passes := s.Activity()
		require.Zero(t, running, "but passes may end")
		require.EqualValues(t, 1, passes)
	})
}

func TestSchedulerActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, noJitter)
		check := func(wantRunning, wantDue int, wantPasses uint64, reason string) {
			t.Helper()
			running, dueNow, passes := s.Activity()
			require.Equal(t, [3]any{wantRunning, wantDue, wantPasses}, [3]any{running, dueNow, passes}, reason)
		}
		check(0, 0, 0, "nothing yet")
		s.Add("a", Fresh, "", 0)
		s.Add("b", Backlog, "", 0)
		check(0, 2, 0, "both queues count")
		_, ok := s.Next(t.Context())
		require.True(t, ok)
		s.Add("a", Fresh, "", 0)
		s.Add("a", Fresh, "", 0)
		check(1, 2, 0, "a running parent with one more pass to come is due")
		s.Done("a", Outcome{Err: true})
		check(0, 1, 1, "one that backs off isn't")
		schedElapse(100 * time.Millisecond)
		check(0, 2, 1, "until its time has come")
		s.Done("a", Outcome{})
		s.Done("unknown", Outcome{Err: true})
		check(0, 2, 1, "what isn't running can't be done")
	})
}

func TestSchedulerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, nil)
		outcomes := []Outcome{{}, {Err: true}, {Again: true}, {Resync: time.Second}, {RetryAfter: time.Second}, {Throttled: true}, {Forget: true}}
		for i := range 1000 {
			s.Add(types.UID(fmt.Sprint(i)), Priority(i%2), "", 0)
		}
		for i := range 1000 {
			d, ok := s.Next(t.Context())
			require.True(t, ok)
			s.Done(d.UID, outcomes[i%len(outcomes)])
		}
		for len(s.mu.parents) > 0 {
			d, ok := s.Next(t.Context())
			require.True(t, ok)
			s.Done(d.UID, Outcome{})
		}
		require.Empty(t, s.mu.timers)
		require.True(t, s.mu.armed.IsZero(), "the timer is stopped")
		require.Zero(t, s.queuedLocked()+s.mu.running+s.mu.pending)
	})
}

// All callers of Next share one timer and one token. Still every worker can work
// at once, and none sleeps through a timer.
func TestSchedulerWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 16
		s := New(0, noJitter)
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		starts := map[time.Duration]int{}
		for range workers {
			wg.Go(func() {
				for d, ok := s.Next(t.Context()); ok; d, ok = s.Next(t.Context()) {
					mu.Lock()
					starts[time.Since(start)]++
					mu.Unlock()
					schedElapse(time.Second)
					s.Done(d.UID, Outcome{Resync: 9 * time.Second})
				}
			})
		}
		synctest.Wait()
		for i := range workers {
			s.Add(types.UID(fmt.Sprint(i)), Fresh, "", 0)
		}
		schedElapse(25 * time.Second)
		s.Close()
		wg.Wait()
		require.Equal(t, map[time.Duration]int{0: workers, 10 * time.Second: workers, 20 * time.Second: workers}, starts)
	})
}

// Several adds leave one token if no caller waits at that moment. A caller that
// takes the token, and leaves parents due, passes the token on.
func TestSchedulerPassesTheTokenOn(t *testing.T) {
	s := New(0, nil)
	s.slots.arrive(s) // another caller, which waits
	s.Add("a", Fresh, "", 0)
	s.Add("b", Fresh, "", 0)
	s.Add("c", Fresh, "", 0)
	require.Len(t, s.wake, 1)

	<-s.wake
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok := s.Next(ended)
	require.False(t, ok)
	require.Len(t, s.wake, 1, "one that stops")

	for _, left := range []int{1, 1, 0} {
		if len(s.wake) > 0 {
			<-s.wake
		}
		_, ok = s.Next(t.Context())
		require.True(t, ok)
		require.Len(t, s.wake, left, "one that takes, while there is more")
	}
}

// A resync of 0.1 s is on time with 1,000 other parents (C76), some of which fail.
func TestSchedulerResyncOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, nil)
		for i := range 1000 {
			s.Add(types.UID(fmt.Sprint(i)), Backlog, "start", 0)
		}
		s.Add("a", Fresh, "parent", 0)
		last, late := time.Now(), time.Duration(0)
		for range 3000 {
			d, ok := s.Next(t.Context())
			require.True(t, ok)
			if d.UID == "a" {
				late = max(late, time.Since(last)-100*time.Millisecond)
				last = time.Now()
				s.Done(d.UID, Outcome{Resync: 100 * time.Millisecond})
				continue
			}
			schedElapse(5 * time.Millisecond)
			s.Done(d.UID, Outcome{Again: rand.IntN(2) == 0, Err: rand.IntN(3) == 0})
		}
		require.Less(t, late, 400*time.Millisecond)
	})
}
