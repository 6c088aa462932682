package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Near is right before every write of random histories: it says no only if the write finds no loop.
func TestConflictDetector_Near(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := NewConflictDetector(5, time.Minute)
	key, other := LoopKey{Parent: "p"}, LoopKey{Parent: "q"}
	near, found := 0, 0
	for i := range 500 {
		now = now.Add(time.Duration(i*i%37) * time.Second)
		before := d.Near(now, "p")
		require.False(t, d.Near(now, "q"), "of another parent")
		if i%50 == 0 {
			d.Wrote(now, other, nil)
		}
		loop := d.Wrote(now, key, []LoopWrite{{Path: "a"}})
		require.Equal(t, loop != nil, before, "write %d", i)
		if before {
			near++
		}
		if loop != nil {
			found++
		}
	}
	require.Greater(t, near, 10)
	require.Equal(t, found, near, "and yes only if it does")
	now = now.Add(time.Hour)
	require.False(t, d.Near(now, "p"), "what is over doesn't count")
}
