package schedule

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func noJitter() float64 { return 0 }

// schedElapse lets the time of a synctest bubble go by. It asks for no timer that has
// expired: see rig.Elapse.
func schedElapse(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// A schedAdd is an event of a scenario.
type schedAdd struct {
	at  time.Duration
	uid types.UID
	p   Priority // asEdited: a call of Edited
	why Trigger
}

// asEdited stands for a call of Edited in place of Add.
const asEdited Priority = -1

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
		"Unfinished while throttled": {
			reason:   "what a pass has begun is ended at once, and the throttle goes on where it was",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}},
			outcomes: append(repeat(2, loop), Outcome{Throttled: true, Again: true, Unfinished: true}, loop, Outcome{}),
			want:     []string{"0s a parent", "1s a throttle ended", "3s a throttle ended", "3s a own writes", "7s a throttle ended"},
		},
		"Events while throttled": {
			reason: "they wait for the throttle's end",
			takes:  100 * time.Millisecond,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {50 * time.Millisecond, "a", Fresh, "e1"}, {500 * time.Millisecond, "a", Fresh, "e2"},
				{600 * time.Millisecond, "a", Backlog, "relist"}, {2 * time.Second, "a", Fresh, "e3"}, {2500 * time.Millisecond, "b", Fresh, "parent"}},
			outcomes: repeat(2, loop),
			want:     []string{"0s a parent", "1.1s a e1 +1", "2.5s b parent", "3.2s a e3"},
		},
		"Edited while throttled": {
			reason: "an edit ends the throttle, which starts anew at a second; other events don't end it",
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {20 * time.Second, "a", Fresh, "child"}, {24 * time.Second, "a", asEdited, "edit"},
				{24100 * time.Millisecond, "a", Fresh, "child"}},
			outcomes: append(repeat(5, loop), Outcome{Again: true}, loop, loop, Outcome{}),
			want: []string{"0s a parent", "1s a throttle ended", "3s a throttle ended", "7s a throttle ended", "15s a throttle ended",
				"24s a child +1", "24s a own writes", "25s a child", "27s a throttle ended"},
		},
		"Edited right after a throttled pass": {
			reason: "half a second lies between, however often it is edited",
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {3100 * time.Millisecond, "a", asEdited, "edit 1"},
				{3600 * time.Millisecond, "a", asEdited, "edit 2"}, {3700 * time.Millisecond, "a", asEdited, "edit 3"}},
			outcomes: repeat(5, loop),
			want: []string{"0s a parent", "1s a throttle ended", "3s a throttle ended", "3.5s a edit 1", "4s a edit 2 +1",
				"5s a throttle ended"},
		},
		"Edited during a throttled pass": {
			reason: "the pass hasn't seen the edit",
			takes:  100 * time.Millisecond,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {1150 * time.Millisecond, "a", asEdited, "edit"},
				{1160 * time.Millisecond, "a", Fresh, "child"}},
			outcomes: repeat(3, loop),
			want:     []string{"0s a parent", "1.1s a throttle ended", "1.7s a edit +1", "2.8s a throttle ended"},
		},
		"Edited while due in the backlog": {
			reason: "it moves up, and the throttle starts anew",
			takes:  time.Second,
			adds: []schedAdd{{0, "a", Fresh, "parent"}, {1500 * time.Millisecond, "b", Fresh, "parent"}, {1600 * time.Millisecond, "c", Fresh, "parent"},
				{2100 * time.Millisecond, "a", asEdited, "edit"}, {2200 * time.Millisecond, "d", Fresh, "parent"}},
			outcomes: []Outcome{loop, {}, {}, loop},
			want:     []string{"0s a parent", "1.5s b parent", "2.5s c parent", "3.5s a throttle ended +1", "4.5s d parent", "5.5s a throttle ended"},
		},
		"Edited while failing": {
			reason:   "as any other change: a second after the failed pass",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {3200 * time.Millisecond, "a", asEdited, "fix"}},
			outcomes: append(repeat(6, fail), Outcome{}),
			want:     []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry", "3.1s a retry", "4.1s a fix"},
		},
		"Edited while throttled and failing": {
			reason:   "the throttle ends, and the failure waits for its second",
			adds:     []schedAdd{{0, "a", Fresh, "parent"}, {3200 * time.Millisecond, "a", asEdited, "fix"}},
			outcomes: append(repeat(5, fail), Outcome{Err: true, Throttled: true}, Outcome{}),
			want:     []string{"0s a parent", "100ms a retry", "300ms a retry", "700ms a retry", "1.5s a retry", "3.1s a retry", "4.1s a fix"},
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
						if a.p == asEdited {
							s.Add(a.uid, Fresh, a.why, Edited)
						} else {
							s.Add(a.uid, a.p, a.why, 0)
						}
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
					synctest.Wait() // adds at the same moment come before the end of the pass
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
