package schedule

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

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
				s.Add(types.UID(uid), p, "", 0)
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

// A parent that is always due again, or keeps failing, doesn't keep the others
// from their passes.
func TestSchedulerNoStarvation(t *testing.T) {
	for name, o := range map[string]Outcome{"Again": {Again: true}, "Resync": {Resync: 1}, "Err": {Err: true}, "Throttled": {Throttled: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(time.Millisecond, noJitter) // far too short, for the test
				s.Add("hot", Fresh, "", 0)
				for i := range 100 {
					s.Add(types.UID(fmt.Sprint("backlog", i)), Backlog, "", 0)
				}
				seen := map[types.UID]int{}
				for i := range 2000 {
					if i%10 == 0 {
						s.Add(types.UID(fmt.Sprint("fresh", i)), Fresh, "", 0)
					}
					d, ok := s.Next(t.Context())
					require.True(t, ok)
					seen[d.UID]++
					if d.UID != "hot" {
						s.Done(d.UID, Outcome{})
						continue
					}
					s.Add("hot", Fresh, "caused by itself", 0)
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
		s.Add("a", Fresh, "", 0)
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
		s.Add("a", Fresh, "fix", 0)
		d, ok := s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, Fresh, d.Priority, "a change is a change")
		s.Done("a", Outcome{Throttled: true})
		s.Add("a", Fresh, "event", 0)
		d, ok = s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, Backlog, d.Priority, "loops stand back")
	})
}

func TestSchedulerWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, noJitter)
		s.Add("a", Backlog, "", 0)
		schedElapse(time.Second)
		s.Add("a", Fresh, "", 0) // moving up doesn't start the clock again
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
