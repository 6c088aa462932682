package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestSituation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(time.Minute, func() float64 { return 0 })
		defer s.Close()
		require.Equal(t, Situation{}, s.Situation("a"), "nothing is known of it")

		s.Add("a", Fresh, "first", 0)
		s.Add("b", Fresh, "second", 0)
		s.Add("c", Backlog, "third", 0)
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
		require.Equal(t, Situation{Next: failed.Add(time.Hour), Trigger: TriggerResync}, s.Situation("c"))

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
