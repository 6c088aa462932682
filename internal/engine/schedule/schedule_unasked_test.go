package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Every pass asks for another one, and nobody else does: there are at most ten such
// passes a second after the first ten, and those that had to wait say so. A change by
// somebody else isn't held up.
func TestScheduler_PassesThatNobodyAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, nil)
		s.Add("p", Fresh, "change", 0)
		start, passes, unasked := time.Now(), 0, 0
		for time.Since(start) < 5*time.Second {
			d, ok := s.Next(t.Context())
			require.True(t, ok)
			passes++
			if d.Unasked {
				unasked++
			}
			s.Done("p", Outcome{Again: true})
		}
		require.GreaterOrEqual(t, passes, 50)
		require.LessOrEqual(t, passes, 62)
		require.Equal(t, passes-11, unasked, "all but the first one and ten")

		s.Add("p", Fresh, "change", 0)
		d, ok := s.Next(t.Context())
		require.True(t, ok)
		require.False(t, d.Unasked)
		require.Zero(t, d.Waited, "somebody has asked")
		s.Done("p", Outcome{})
		s.Close()
	})
}
