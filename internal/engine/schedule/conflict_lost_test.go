package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

func TestConflictDetectorReplaced(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason  string
		pause   time.Duration // between the deletions
		written time.Duration // how long before its deletion each object was written
		fresh   bool          // each object has a new name
		several int           // how many objects are deleted and replaced each time
		rounds  int           // how often
		found   int           // in which round, from 1; 0: never
	}{
		"Same name":        {reason: "the fifth deletion of what was created", pause: time.Second, written: time.Second, several: 1, rounds: 9, found: 5},
		"New names":        {reason: "each takes the place of the one before", pause: time.Second, written: time.Second, fresh: true, several: 1, rounds: 9, found: 5},
		"Throttled":        {reason: "the loop goes on at the pace of the throttle", pause: 10 * time.Second, written: 10 * time.Second, several: 1, rounds: 6, found: 5},
		"Old objects":      {reason: "a node is drained: what was written long ago may go", pause: time.Second, written: time.Hour, fresh: true, several: 1, rounds: 50},
		"Slow":             {reason: "four in a minute are none", pause: 16 * time.Second, written: 16 * time.Second, fresh: true, several: 1, rounds: 50},
		"Many at once":     {reason: "ten that are deleted together, four times", pause: time.Second, written: time.Second, fresh: true, several: 10, rounds: 4},
		"Many at once, on": {reason: "and a fifth time", pause: time.Second, written: time.Second, fresh: true, several: 10, rounds: 5, found: 5},
		"Many, same names": {reason: "and a fifth time", pause: time.Second, written: time.Second, several: 10, rounds: 5, found: 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewConflictDetector(0, 0)
			keyOf := func(round, i int) LoopKey {
				key := LoopKey{Parent: "p", Type: resource.Type{Kind: "Pod"}, Object: types.NamespacedName{Name: fmt.Sprint(i)}}
				if tc.fresh {
					key.Object.Name = fmt.Sprint(round, "-", i)
				}
				return key
			}
			found := 0
			for round := range tc.rounds {
				now := start.Add(time.Duration(round) * tc.pause)
				for i := range tc.several {
					d.Lost(now, keyOf(round, i), tc.written)
				}
				for i := range tc.several {
					key := keyOf(round+1, i)
					if d.Replaces(now, key, false) && d.Wrote(now, key, nil) != nil && found == 0 {
						found = round + 1
					}
				}
			}
			require.Equal(t, tc.found, found, tc.reason)
		})
	}
}

func TestConflictDetectorReplaces(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := func(parent, kind, name string) LoopKey {
		return LoopKey{Parent: types.UID(parent), Type: resource.Type{Kind: kind}, Object: types.NamespacedName{Name: name}}
	}
	d := NewConflictDetector(0, 0)
	require.False(t, d.Replaces(start, key("p", "Pod", "a"), false), "nothing was lost")
	d.Lost(start, key("p", "Pod", "a"), time.Second)
	require.False(t, d.Replaces(start, key("p", "Job", "a"), false), "another type")
	require.False(t, d.Replaces(start, key("q", "Pod", "a"), false), "another parent")
	require.False(t, d.Replaces(start, key("p", "Pod", "b"), true), "another name, and only the name counts")
	require.True(t, d.Replaces(start, key("p", "Pod", "b"), false))
	require.False(t, d.Replaces(start, key("p", "Pod", "c"), false), "one object takes the place of one")
	d.Lost(start, key("p", "Pod", "a"), time.Second)
	require.False(t, d.Replaces(start.Add(61*time.Second), key("p", "Pod", "b"), false), "that was long ago")
	require.Equal(t, 1, d.Len())
	d.Lost(start.Add(3*time.Minute), key("q", "Pod", "a"), time.Second)
	require.Equal(t, 1, d.Len(), "what was lost long ago is dropped")

	// Somebody deletes the replacement only after a throttle of minutes.
	d = NewConflictDetector(0, 0)
	now := start
	for _, seconds := range []int{1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600} {
		pause := time.Duration(seconds) * time.Second
		now = now.Add(pause)
		d.Lost(now, key("p", "Pod", "a"), pause)
		if d.Replaces(now, key("p", "Pod", "a"), false) {
			d.Wrote(now, key("p", "Pod", "a"), nil)
		}
	}
	require.True(t, d.Active(now, "p"), "the loop goes on")
}

func TestConflictDetectorExcuse(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, key := NewConflictDetector(0, 0), LoopKey{Parent: "p"}
	for range 6 {
		d.Wrote(now, key, nil)
	}
	require.True(t, d.Active(now, "p"))
	d.Excuse("p")
	require.False(t, d.Active(now, "p"), "somebody has edited the parent")
	require.True(t, d.Lasts(now, "p"), "the loop isn't known to be over")
	d.Wrote(now, key, nil)
	require.True(t, d.Active(now, "p"), "it goes on")
	d.Excuse("q")
	require.True(t, d.Active(now, "p"))
}
