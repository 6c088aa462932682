package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func noJitter() float64 { return 0 }

// schedElapse lets the time of a synctest bubble go by.
func schedElapse(d time.Duration) { <-time.After(d) }

// A schedAdd is an event of a scenario.
type schedAdd struct {
	at  time.Duration
	uid types.UID
	p   Priority
	why Trigger
}

func TestScheduler(t *testing.T) {
	fail := Outcome{Err: true}
	loop := Outcome{Throttled: true, Again: true}
	repeat := func(n int, o Outcome) []Outcome {
		var all []Outcome
		for range n {
			all = append(all, o)
		}
		return all
	}
	tests := map[string]struct {
		reason   string
		takes    time.Duration // how long each pass runs
		adds     []schedAdd    // in order of time
		outcomes []Outcome     // of the passes in order; afterwards all succeed
		until    time.Duration // default 1 h
		want     []string      // the passes: start, parent, trigger, +coalesced
	}{
		"Coalesced": {
			reason: "a parent is queued once, with its first trigger",
			takes:  time.Second,
			adds:   []schedAdd{{0, "a", Fresh, "parent"}, {0, "b", Fresh, "x"}, {0, "b", Fresh, "y"}, {0, "b", Backlog, "z"}},
			want:   []string{"0s a parent", "1s b x +2"},
		},
		"One more pass": {
			reason: "events during a pass lead to exactly one more",
			takes:  time.Second,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {100 * time.Millisecond, "a", Fresh, "child x"},
				{200 * time.Millisecond, "a", Backlog, "relist"}},
			want: []string{"0s a parent", "1s a child x +1"},
		},
		"Own writes": {
			reason:   "a pass that wrote something is followed by another one",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}},
			outcomes: []Outcome{{Again: true}},
			want:     []string{"0s a parent", "0s a own writes"},
		},
		"Own writes and an event": {
			reason:   "one pass is enough for both, and for the resync that was asked for",
			takes:    time.Second,
			adds:     []schedAdd{{0, "a", Backlog, "start"}, {500 * time.Millisecond, "a", Fresh, "parent"}},
			outcomes: []Outcome{{Again: true, Resync: time.Minute}},
			want:     []string{"0s a start", "1s a parent +1"},
		},
		"Backoff": {
			reason:   "100 ms, doubling; the first success resets it",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {time.Minute, "a", Fresh, "parent"}},
			outcomes: append(repeat(4, fail), Outcome{}, fail, Outcome{}),
			want: []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry",
				"1m0s a parent", "1m0.1s a retry"},
		},
		"Maximal backoff": {
			reason:   "no wait is longer than 10 s here",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}},
			outcomes: repeat(1000, fail), until: 40 * time.Second,
			want: []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry", "3.1s a retry",
				"6.3s a retry", "12.7s a retry", "22.7s a retry", "32.7s a retry"},
		},
		"A failing parent disturbs no other": {
			reason:   "the others run in between, at once",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {50 * time.Millisecond, "b", Fresh, "parent"}, {150 * time.Millisecond, "c", Backlog, "start"}},
			outcomes: []Outcome{fail, {}, fail, {}, fail, {}},
			want:     []string{"0s a parent", "50ms b parent", "100ms a retry", "150ms c start", "300ms a retry", "700ms a retry"},
		},
		"Fix": {
			reason: "a change long after the failure runs at once, and failures still count until a success",
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {5500 * time.Millisecond, "a", Fresh, "fix 1"}, {6700 * time.Millisecond, "a", Fresh, "fix 2"},
				{8 * time.Second, "a", Fresh, "after"}},
			outcomes: append(repeat(6, fail), fail, Outcome{}),
			want: []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry", "3.1s a retry",
				"5.5s a fix 1", "6.7s a fix 2", "8s a after"},
		},
		"Fix right after the failure": {
			reason: "it waits for the rest of a second",
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {3200 * time.Millisecond, "a", Fresh, "fix"},
				{3300 * time.Millisecond, "a", Fresh, "more"}},
			outcomes: repeat(6, fail),
			want: []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry", "3.1s a retry",
				"4.1s a fix +1"},
		},
		"Failing passes that cause events": {
			reason: "once a second at most, whatever comes in",
			takes:  100 * time.Millisecond,
			adds: func() (all []schedAdd) {
				all = append(all, schedAdd{0, "a", Fresh, "parent"})
				for i := range 600 {
					all = append(all, schedAdd{time.Duration(i)*10*time.Millisecond + 5*time.Millisecond, "a", Fresh, "e"})
				}
				return all
			}(),
			outcomes: repeat(1000, fail), until: 7 * time.Second,
			want: []string{"0s a parent", "200ms a e +19", "500ms a e +29", "1s a e +49", "1.9s a e +89",
				"3s a e +109", "4.1s a e +109", "5.2s a e +109", "6.3s a e +79"},
		},
		"Relist": {
			reason: "nothing changed, so a failed parent's backoff stays",
			takes:  10 * time.Millisecond,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {5 * time.Millisecond, "a", Backlog, "relist"},
				{50 * time.Millisecond, "a", Backlog, "relist"}},
			outcomes: []Outcome{fail},
			want:     []string{"0s a parent", "110ms a retry"},
		},
		"Permanent": {
			reason: "only a change leads to another pass",
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {time.Minute, "a", Backlog, "relist"},
				{2 * time.Minute, "a", Fresh, "child x"}, {3 * time.Minute, "a", Fresh, "parent"}},
			outcomes: []Outcome{{Permanent: true}, {Permanent: true, Err: true}},
			want:     []string{"0s a parent", "2m0s a child x", "3m0s a parent"},
		},
		"Permanent for one child": {
			reason: "what was written for others, or asked for by the handler, isn't dropped",
			adds:   []schedAdd{{0, "a", Fresh, "parent"}, {time.Minute, "b", Fresh, "parent"}},
			outcomes: []Outcome{{Permanent: true, Again: true, Resync: time.Second}, {Permanent: true, Resync: time.Second},
				{Permanent: true, Resync: time.Millisecond}, {Permanent: true}},
			want: []string{"0s a parent", "100ms a retry", "1.1s a resync", "1.5s a resync", "1m0s b parent"},
		},
		"Permanent and a change during the pass": {
			reason:   "the change leads to one more pass, after the backoff of a first failure",
			takes:    time.Second,
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {time.Millisecond, "a", Fresh, "child x"}},
			outcomes: []Outcome{{Permanent: true}},
			want:     []string{"0s a parent", "1.1s a child x"},
		},
		"Resync": {
			reason:   "on time, from the end of the pass",
			takes:    time.Second,
			adds:     []schedAdd{{0, "a", Fresh, "parent"}},
			outcomes: []Outcome{{Resync: time.Minute}, {Resync: time.Minute}},
			want:     []string{"0s a parent", "1m1s a resync", "2m2s a resync"},
		},
		"Resync dropped": {
			reason:   "another pass has run since",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {30 * time.Second, "a", Backlog, "relist"}},
			outcomes: []Outcome{{Resync: time.Minute}, {}},
			want:     []string{"0s a parent", "30s a relist"},
		},
		"Resync replaced": {
			reason:   "the newest pass decides",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {30 * time.Second, "a", Fresh, "parent"}},
			outcomes: []Outcome{{Resync: time.Minute}, {Resync: time.Minute}},
			want:     []string{"0s a parent", "30s a parent", "1m30s a resync"},
		},
		"Resync overtakes the backlog": {
			reason: "a timer that the handler asked for counts as a change, also if the parent is queued",
			takes:  time.Second,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {1200 * time.Millisecond, "b", Fresh, "parent"}, {1300 * time.Millisecond, "c", Backlog, "start"},
				{1400 * time.Millisecond, "a", Backlog, "relist"}},
			outcomes: []Outcome{{Resync: 500 * time.Millisecond}},
			want:     []string{"0s a parent", "1.2s b parent", "2.2s a relist", "3.2s c start"},
		},
		"RetryAfter": {
			reason:   "no failure: it resets the backoff, and a change comes first",
			adds:     []schedAdd{{0, "a", Fresh, "deleted"}, {2 * time.Second, "a", Fresh, "child x"}},
			outcomes: []Outcome{fail, fail, {RetryAfter: 5 * time.Second, Resync: time.Hour}, {RetryAfter: time.Minute, Resync: time.Second}, fail},
			want:     []string{"0s a deleted", "100ms a retry", "300ms a retry", "2s a child x", "3s a resync", "3.1s a retry"},
		},
		"RetryAfter of a failure": {
			reason: "it takes the place of the backoff, of a permanent failure too; failures count on, and a change comes first",
			adds:   []schedAdd{{0, "a", Fresh, "parent"}, {32 * time.Second, "a", Fresh, "child x"}},
			outcomes: []Outcome{
				{Err: true, RetryAfter: 20 * time.Second}, {Err: true, Permanent: true, RetryAfter: 10 * time.Second},
				{Err: true, RetryAfter: time.Minute}, fail,
			},
			want: []string{"0s a parent", "20s a retry", "30s a retry", "32s a child x", "32.8s a retry"},
		},
		"Throttled": {
			reason:   "1 s, doubling, up to the maximum, though the passes succeed; over with the first pass that isn't throttled",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {time.Minute, "a", Fresh, "parent"}},
			outcomes: append(repeat(6, loop), Outcome{}, Outcome{Again: true}),
			want: []string{"0s a parent", "1s a throttle ended", "3s a throttle ended", "7s a throttle ended", "15s a throttle ended",
				"25s a throttle ended", "35s a throttle ended", "1m0s a parent", "1m0s a own writes"},
		},
		"Events while throttled": {
			reason: "they wait for the throttle's end",
			takes:  100 * time.Millisecond,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {50 * time.Millisecond, "a", Fresh, "e1"}, {500 * time.Millisecond, "a", Fresh, "e2"},
				{600 * time.Millisecond, "a", Backlog, "relist"}, {2 * time.Second, "a", Fresh, "e3"}, {2500 * time.Millisecond, "b", Fresh, "parent"}},
			outcomes: repeat(2, loop),
			want:     []string{"0s a parent", "1.1s a e1 +1", "2.5s b parent", "3.2s a e3"},
		},
		"Throttled and failed": {
			reason:   "the longer of both waits, and a change shortens neither",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {3200 * time.Millisecond, "a", Fresh, "fix"}},
			outcomes: append(repeat(5, fail), Outcome{Err: true, Throttled: true}, Outcome{Throttled: true}, Outcome{}),
			want: []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry", "3.1s a retry",
				"6.3s a fix", "8.3s a throttle ended"},
		},
		"Throttled and failed for good": {
			reason:   "no pass without a change, and none before the throttle's end",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {100 * time.Millisecond, "a", Fresh, "fix"}, {time.Minute, "a", Fresh, "fix"}},
			outcomes: repeat(2, Outcome{Permanent: true, Throttled: true}),
			want:     []string{"0s a parent", "1s a fix", "1m0s a fix"},
		},
		"Gone": {
			reason:   "the state goes too: the next failure starts at 100 ms",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {time.Minute, "a", Fresh, "parent"}},
			outcomes: []Outcome{fail, fail, {Forget: true, Err: true, Again: true, Resync: time.Second}, fail},
			want:     []string{"0s a parent", "100ms a retry", "300ms a retry", "1m0s a parent", "1m0.1s a retry"},
		},
		"Gone and back": {
			reason:   "an event during the last pass isn't lost",
			takes:    time.Second,
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {time.Millisecond, "a", Fresh, "parent"}},
			outcomes: []Outcome{{Forget: true}},
			want:     []string{"0s a parent", "1s a parent"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := tc.until
				if until == 0 {
					until = time.Hour
				}
				ctx, cancel := context.WithTimeout(t.Context(), until)
				defer cancel()
				s := New(10*time.Second, noJitter)
				start := time.Now()
				go func() { // ends after the last add
					for _, a := range tc.adds {
						schedElapse(time.Until(start.Add(a.at)))
						s.Add(a.uid, a.p, a.why)
					}
				}()
				var passes []string
				outcomes := tc.outcomes
				for d, ok := s.Next(ctx); ok; d, ok = s.Next(ctx) {
					pass := fmt.Sprintf("%s %s %s", time.Since(start), d.UID, d.Trigger)
					if d.More > 0 {
						pass += fmt.Sprintf(" +%d", d.More)
					}
					passes = append(passes, pass)
					schedElapse(tc.takes)
					synctest.Wait() // what happens at the same moment comes before the end
					var o Outcome
					if len(outcomes) > 0 {
						o, outcomes = outcomes[0], outcomes[1:]
					}
					s.Done(d.UID, o)
				}
				require.Equal(t, tc.want, passes, tc.reason)
			})
		})
	}
}

func TestSchedulerOrder(t *testing.T) {
	tests := map[string]struct {
		reason string
		adds   string // upper case: fresh, lower case: backlog
		want   string
	}{
		"FIFO":          {reason: "within a class", adds: "ABCDwxyz", want: "ABCDwxyz"},
		"Fresh first":   {reason: "changes come before the backlog", adds: "xyzABC", want: "ABCxyz"},
		"Moves up":      {reason: "a change of a parent in the backlog", adds: "xyzXA", want: "XAyz"},
		"Stays":         {reason: "a relist moves no parent down", adds: "XYZxA", want: "XYZA"},
		"Backlog moves": {reason: "one after eight fresh ones", adds: "yzABCDEFGHIJ", want: "ABCDEFGHyIJz"},
		"Backlog takes turns": {
			reason: "a turn, then it is the turn of the fresh ones again",
			adds:   "yzxABCDEFGHIJKLMNOPQRS", want: "ABCDEFGHyIJKLMNOPzQRSx",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(0, nil)
			for _, c := range tc.adds {
				uid, p := strings.ToUpper(string(c)), Backlog
				if uid == string(c) {
					p = Fresh
				}
				s.Add(types.UID(uid), p, "")
			}
			var got string
			for {
				_, dueNow, _ := s.Activity()
				if dueNow == 0 {
					break
				}
				d, ok := s.Next(t.Context())
				require.True(t, ok)
				if d.Priority == Backlog {
					d.UID = types.UID(strings.ToLower(string(d.UID)))
				}
				got += string(d.UID)
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// A parent that always is due again lets the others have their turns, and so
// does one that keeps failing.
func TestSchedulerNoStarvation(t *testing.T) {
	for name, o := range map[string]Outcome{"Again": {Again: true}, "Resync": {Resync: 1}, "Err": {Err: true}, "Throttled": {Throttled: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(time.Millisecond, noJitter) // far too short, for the test
				s.Add("hot", Fresh, "")
				for i := range 100 {
					s.Add(types.UID(fmt.Sprint("backlog", i)), Backlog, "")
				}
				seen := map[types.UID]int{}
				for i := range 2000 {
					if i%10 == 0 {
						s.Add(types.UID(fmt.Sprint("fresh", i)), Fresh, "")
					}
					d, ok := s.Next(t.Context())
					require.True(t, ok)
					seen[d.UID]++
					if d.UID != "hot" {
						s.Done(d.UID, Outcome{})
						continue
					}
					s.Add("hot", Fresh, "caused by itself")
					s.Done(d.UID, o)
				}
				require.Len(t, seen, 301, "every parent had its pass")
				require.Greater(t, seen["hot"], 500, "the busy one too")
			})
		})
	}
}

func TestSchedulerRetryClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(time.Hour, noJitter)
		s.Add("a", Fresh, "")
		for n := 1; n <= 5; n++ {
			d, ok := s.Next(t.Context())
			require.True(t, ok)
			want := Fresh
			if n > promptRetries+1 {
				want = Backlog
			}
			require.Equal(t, want, d.Priority, "a blip is retried in its class, the retries after failure %d in the backlog", n)
			s.Done("a", Outcome{Err: true})
		}
		s.Add("a", Fresh, "fix")
		d, ok := s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, Fresh, d.Priority, "a change is a change")
		s.Done("a", Outcome{Throttled: true})
		s.Add("a", Fresh, "event")
		d, ok = s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, Backlog, d.Priority, "loops stand back")
	})
}

func TestSchedulerWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, noJitter)
		s.Add("a", Backlog, "")
		schedElapse(time.Second)
		s.Add("a", Fresh, "") // moving up doesn't start the clock again
		schedElapse(time.Second)
		d, ok := s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, 2*time.Second, d.Waited)
		s.Done("a", Outcome{Resync: time.Second})
		schedElapse(3 * time.Second) // every worker is busy
		d, ok = s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, 2*time.Second, d.Waited, "from when it could have run")
	})
}

func TestSchedulerJitter(t *testing.T) {
	for rnd, want := range map[float64]time.Duration{0: 400 * time.Millisecond, 0.5: 500 * time.Millisecond, 1: 600 * time.Millisecond} {
		s := New(time.Second, func() float64 { return rnd })
		require.Equal(t, want, s.backoff(errorBackoffBase, 3))
		require.Equal(t, time.Second, s.backoff(errorBackoffBase, 1000), "the maximum is one")
	}
	s := New(0, nil)
	require.Equal(t, 10*time.Minute, s.backoff(errorBackoffBase, 1000), "default")
	require.InDelta(t, float64(125*time.Millisecond), float64(s.backoff(errorBackoffBase, 1)), float64(25*time.Millisecond))
}

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

		s.Add("a", Fresh, "")
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
		s.Add("b", Fresh, "")
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
		s.Add("a", Fresh, "")
		s.Add("b", Backlog, "")
		check(0, 2, 0, "both queues count")
		_, ok := s.Next(t.Context())
		require.True(t, ok)
		s.Add("a", Fresh, "")
		s.Add("a", Fresh, "")
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
			s.Add(types.UID(fmt.Sprint(i)), Priority(i%2), "")
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

// Those who wait get what is due though they share one timer and one token:
// every worker can work at once, and none sleeps through a timer.
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
			s.Add(types.UID(fmt.Sprint(i)), Fresh, "")
		}
		schedElapse(25 * time.Second)
		s.Close()
		wg.Wait()
		require.Equal(t, map[time.Duration]int{0: workers, 10 * time.Second: workers, 20 * time.Second: workers}, starts)
	})
}

// Two adds may leave one token if nobody waits at that moment: who comes with
// it and leaves passes it on.
func TestSchedulerPassesTheTokenOn(t *testing.T) {
	s := New(0, nil)
	s.Add("a", Fresh, "")
	s.Add("b", Fresh, "")
	s.Add("c", Fresh, "")
	require.Len(t, s.wake, 1)

	<-s.wake
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok := s.take(ended)
	require.False(t, ok)
	require.Len(t, s.wake, 1, "one that stops")

	for _, left := range []int{1, 1, 0} {
		if len(s.wake) > 0 {
			<-s.wake
		}
		_, ok = s.take(t.Context())
		require.True(t, ok)
		require.Len(t, s.wake, left, "one that takes, while there is more")
	}
}

// A resync of 0.1 s is on time with 1,000 other parents (C76), some of which fail.
func TestSchedulerResyncOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, nil)
		for i := range 1000 {
			s.Add(types.UID(fmt.Sprint(i)), Backlog, "start")
		}
		s.Add("a", Fresh, "parent")
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
