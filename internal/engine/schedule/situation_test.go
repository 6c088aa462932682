package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

func TestSituation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(time.Minute, func() float64 { return 0 })
		defer s.Close()
		require.Equal(t, Situation{}, s.Situation("a"), "nothing is known of it")

		s.Add("a", Fresh, "first")
		s.Add("b", Fresh, "second")
		s.Add("c", Backlog, "third")
		require.Equal(t, Situation{Queued: true, Trigger: "first"}, s.Situation("a"))
		require.Equal(t, Situation{Queued: true, Place: 1, Trigger: "second"}, s.Situation("b"))
		require.Equal(t, Situation{Queued: true, Place: 2, Trigger: "third"}, s.Situation("c"), "the fresh ones go first")
		require.Equal(t, Situation{Queued: true, Trigger: "third"}, s.Glance("c"), "the same without its place")

		d, ok := s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, types.UID("a"), d.UID)
		require.Equal(t, Situation{Running: true}, s.Situation("a"))
		require.Equal(t, 0, s.Situation("b").Place)

		failed := time.Now()
		s.Done("a", Outcome{Err: true})
		require.Equal(t, Situation{Next: failed.Add(100 * time.Millisecond), Trigger: triggerRetry, Failures: 1, Since: failed}, s.Situation("a"))
		_, _ = s.Next(t.Context())
		_, _ = s.Next(t.Context())
		s.Done("b", Outcome{})
		s.Done("c", Outcome{Resync: time.Hour})
		require.Equal(t, Situation{}, s.Situation("b"), "its pass has left nothing to do")
		require.Equal(t, Situation{Next: failed.Add(time.Hour), Trigger: triggerResync}, s.Situation("c"))

		d, _ = s.Next(t.Context())
		require.Equal(t, types.UID("a"), d.UID)
		s.Done("a", Outcome{Err: true})
		require.Equal(t, failed, s.Situation("a").Since, "of the first failure in a row")
		require.Equal(t, 2, s.Situation("a").Failures)
		_, _ = s.Next(t.Context())
		s.Done("a", Outcome{Throttled: true})
		require.Equal(t, 1, s.Situation("a").Throttles)
		require.Zero(t, s.Situation("a").Since, "it has succeeded")
		require.Equal(t, TriggerThrottled, s.Situation("a").Trigger)
	})
}

func TestConflictDetector_Current(t *testing.T) {
	d := NewConflictDetector(2, time.Minute)
	now := time.Unix(0, 0)
	few, many := LoopKey{Parent: "p", Type: resource.Type{Kind: "Few"}}, LoopKey{Parent: "p", Type: resource.Type{Kind: "Many"}}
	require.Nil(t, d.Current(now, "p"))
	writes := []LoopWrite{{Path: "spec", From: "a", To: "b"}}
	d.Wrote(now, few, writes)
	require.Nil(t, d.Current(now, "p"), "one write is no loop")
	d.Wrote(now, few, writes)
	for range 3 {
		d.Wrote(now, many, writes)
	}
	require.Equal(t, &ConflictLoop{Key: many, Path: "spec", Values: []string{"a", "b"}, Writes: 3}, d.Current(now, "p"), "of several loops the busiest")
	require.Nil(t, d.Current(now, "other"))
	require.Nil(t, d.Current(now.Add(2*time.Minute), "p"), "nothing was written for longer than the window")
	d.Excuse("p")
	require.Nil(t, d.Current(now, "p"), "somebody has edited the parent")
}
