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
		before := d.Near(now, "p", 1)
		require.False(t, d.Near(now, "q", 1), "of another parent")
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
	require.False(t, d.Near(now, "p", 1), "what is over doesn't count")
}

// Near for several writes foresees a loop by as many, and no sooner.
func TestConflictDetector_NearBySeveral(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := NewConflictDetector(5, time.Minute)
	for written := range 14 { // two loops, and most of a third
		for writes := 1; writes <= 4; writes++ {
			require.Equal(t, written > 0 && 5-written%5 <= writes, d.Near(now, "p", writes), "%d more after %d", writes, written)
		}
		d.Wrote(now, LoopKey{Parent: "p"}, nil)
		now = now.Add(time.Second)
	}
}
