package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A follow-up comes before the other parents of its class, twice in a row at most. (S65)
func TestScheduler_FollowUp(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		adds   []schedAdd
		follow map[types.UID]int // how many follow-ups a parent asks for
		want   string
	}{
		"Before others": {
			"the status follows the children", []schedAdd{{0, "a", Fresh, ""}, {0, "b", Fresh, ""}, {0, "c", Fresh, ""}},
			map[types.UID]int{"a": 2, "b": 2, "c": 2}, "aaabbbccc",
		},
		"Not for ever": {
			"a parent that writes each time lets others have their turn", []schedAdd{{0, "a", Fresh, ""}, {0, "b", Fresh, ""}},
			map[types.UID]int{"a": 5}, "aaabaaa",
		},
		"In the backlog": {
			"changes go first", []schedAdd{{0, "a", Backlog, ""}, {0, "b", Backlog, ""}, {0, "c", Fresh, ""}},
			map[types.UID]int{"a": 1, "c": 1}, "ccaab",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(0, noJitter)
				for _, a := range tc.adds {
					s.Add(a.uid, a.p, a.why, 0)
				}
				got := ""
				for range tc.want {
					d, ok := s.Next(t.Context())
					require.True(t, ok)
					got += string(d.UID)
					tc.follow[d.UID]--
					s.Done(d.UID, Outcome{Again: tc.follow[d.UID] >= 0})
				}
				require.Equal(t, tc.want, got, tc.reason)
				s.Close()
			})
		})
	}
}

// No limit counts a pass that has come a step further.
func TestScheduler_Step(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, noJitter)
		s.Add("p", Fresh, "change", 0)
		start := time.Now()
		for range 1000 {
			d, ok := s.Next(t.Context())
			require.True(t, ok)
			require.False(t, d.Unasked)
			s.Done("p", Outcome{Again: true, Step: true})
		}
		require.Zero(t, time.Since(start))
		s.Close()
	})
}
