package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

func TestConflictDetector(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	every := func(n int, interval time.Duration) []time.Duration {
		var at []time.Duration
		for i := range n {
			at = append(at, time.Duration(i)*interval)
		}
		return at
	}
	tests := map[string]struct {
		reason string
		at     []time.Duration // of the suspicious writes
		found  []int           // which of them, from 1, the detector names
		asked  time.Duration   // when active is asked
		active bool
	}{
		"Four": {
			reason: "a few restored values are an operator's job, no loop",
			at:     every(4, time.Second), asked: 4 * time.Second,
		},
		"Five": {
			reason: "the fifth within a minute is a loop",
			at:     every(5, time.Second), found: []int{5}, asked: 5 * time.Second, active: true,
		},
		"ExactlyAMinute": {
			reason: "a minute from the first to the fifth is within a minute",
			at:     every(5, 15*time.Second), found: []int{5}, asked: time.Minute, active: true,
		},
		"Slow": {
			reason: "writes that are further apart are no loop, however many",
			at:     every(50, 16*time.Second), asked: 800 * time.Second,
		},
		"Burst after quiet": {
			reason: "only writes within the window count",
			at:     []time.Duration{0, time.Second, 2 * time.Minute, 121 * time.Second, 122 * time.Second, 123 * time.Second, 124 * time.Second},
			found:  []int{7}, asked: 125 * time.Second, active: true,
		},
		"Reminders": {
			reason: "a loop that goes on is named again, but not at every write",
			at:     every(16, time.Second), found: []int{5, 10, 15}, asked: 16 * time.Second, active: true,
		},
		"Throttled": {
			reason: "a throttled parent writes ever more slowly: still the same loop",
			at: append(every(5, time.Millisecond), time.Second, 4*time.Second, 13*time.Second, 40*time.Second, 121*time.Second,
				364*time.Second, 964*time.Second),
			found: []int{5, 10}, asked: 964 * time.Second, active: true,
		},
		"Not yet over": {
			reason: "within a minute after the last write it may go on",
			at:     every(5, time.Second), found: []int{5}, asked: 64 * time.Second, active: true,
		},
		"Over": {
			reason: "a throttled pass that finds nothing to write after a minute ends the throttling",
			at:     every(5, time.Second), found: []int{5}, asked: 65 * time.Second, active: false,
		},
		"Resumed": {
			reason: "if the fight resumes soon after, it is throttled at once",
			at:     append(every(5, 15*time.Second), 160*time.Second), found: []int{5}, asked: 160 * time.Second, active: true,
		},
		"Long over": {
			reason: "long after a loop a single write is none",
			at:     append(every(5, time.Second), time.Hour), found: []int{5}, asked: time.Hour, active: false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := NewConflictDetector(0, 0)
			key := LoopKey{Parent: "a", Object: types.NamespacedName{Namespace: "ns", Name: "x"}}
			var found []int
			for i, at := range tc.at {
				if l := d.Wrote(start.Add(at), key, nil); l != nil {
					require.Equal(t, key, l.Key)
					require.Zero(t, l.Writes%5)
					found = append(found, i+1)
				}
			}
			require.Equal(t, tc.found, found, tc.reason)
			require.Equal(t, tc.active, d.Active(start.Add(tc.asked), "a"), tc.reason)
			require.False(t, d.Active(start.Add(tc.asked), "b"), "other parents are none of it")
		})
	}
}

func TestConflictDetectorNamesTheField(t *testing.T) {
	tests := map[string]struct {
		reason string
		writes [][]LoopWrite
		path   string
		values []string
	}{
		"Fight": {
			reason: "two operators that fight: the field and both values",
			writes: [][]LoopWrite{
				{{".spec.a", "1", "2"}, {".spec.replicas", "3", "5"}},
				{{".spec.replicas", "3", "5"}},
				{{".spec.b", "1", "2"}, {".spec.replicas", "3", "5"}},
			},
			path: ".spec.replicas", values: []string{"3", "5"},
		},
		"Timestamp": {
			reason: "a value that is always new: five of them are enough to see it",
			writes: [][]LoopWrite{
				{{".status.at", "0", "1"}}, {{".status.at", "1", "2"}}, {{".status.at", "2", "6"}, {".status.n", "0", "1"}},
				{{".status.at", "6", "7"}, {".status.n", "1", "2"}}, {{".status.at", "7", "8"}},
			},
			path: ".status.at", values: []string{"0", "1", "2", "6", "7"},
		},
		"Tie": {
			reason: "of several the first, so that the answer doesn't vary",
			writes: [][]LoopWrite{{{".z", "1", "2"}, {".a", "1", "2"}}, {{".z", "2", "1"}, {".a", "2", "1"}}},
			path:   ".z", values: []string{"1", "2"},
		},
		"Absent": {
			reason: "a field that somebody removes has one value",
			writes: [][]LoopWrite{{{".spec.a", "", "1"}}, {{".spec.a", "", "1"}}},
			path:   ".spec.a", values: []string{"1"},
		},
		"No field": {
			reason: "a caller that knows no field still gets the loop",
			writes: [][]LoopWrite{nil, nil},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := NewConflictDetector(len(tc.writes), time.Minute)
			var l *ConflictLoop
			for _, w := range tc.writes {
				require.Nil(t, l, tc.reason)
				l = d.Wrote(time.Now(), LoopKey{Parent: "a"}, w)
			}
			require.NotNil(t, l, tc.reason)
			require.Equal(t, tc.path, l.Path, tc.reason)
			require.Equal(t, tc.values, l.Values, tc.reason)
		})
	}
}

func TestConflictDetectorKeepsObjectsApart(t *testing.T) {
	d := NewConflictDetector(2, time.Minute)
	now := time.Now()
	pod := func(name string) LoopKey {
		return LoopKey{Parent: "a", Type: resource.Type{APIVersion: "v1", Kind: "Pod"}, Object: types.NamespacedName{Name: name}}
	}
	for i := range 10 {
		require.Nil(t, d.Wrote(now, pod(fmt.Sprint(i)), nil), "one write to each of ten Pods is no loop")
	}
	require.Nil(t, d.Wrote(now, LoopKey{Parent: "b", Type: pod("0").Type, Object: pod("0").Object}, nil))
	require.NotNil(t, d.Wrote(now, pod("3"), nil))
	require.True(t, d.Active(now, "a"))
	require.False(t, d.Active(now, "b"))

	d.Forget("a")
	require.False(t, d.Active(now, "a"))
	require.Nil(t, d.Wrote(now, pod("3"), nil), "a forgotten parent starts from nothing")
}

func TestConflictDetectorMemory(t *testing.T) {
	d, answers := NewConflictDetector(5, time.Minute), NewConflictDetector(5, time.Minute)
	start := time.Now()
	many := make([]LoopWrite, 1000)
	for i := range 3000 {
		at := start.Add(time.Duration(i) * time.Second)
		d.Wrote(at, LoopKey{Parent: types.UID(fmt.Sprint(i))}, many)
		d.Wrote(at, LoopKey{Parent: "hot"}, many)
		answers.Answered(at, LoopKey{Parent: types.UID(fmt.Sprint(i))})
	}
	require.Less(t, len(d.mu.parents), 130, "what was not written for a window is dropped")
	require.Less(t, len(answers.mu.parents), 130, "nor is a rollout remembered")
	for _, h := range d.mu.parents["hot"] {
		require.Len(t, h.writes, 5)
		require.Len(t, h.writes[0].fields, maxLoopFields)
	}
}

func TestConflictDetectorLasts(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := LoopKey{Parent: "p", Object: types.NamespacedName{Name: "a"}}
	d := NewConflictDetector(0, 0)
	require.False(t, d.Lasts(start, "p"), "nothing was written")
	for i := range 5 {
		require.False(t, d.Lasts(start, "p"), "not a loop yet")
		d.Wrote(start.Add(time.Duration(i)*10*time.Second), key, nil)
	}
	require.True(t, d.Lasts(start.Add(41*time.Second), "p"))
	require.True(t, d.Lasts(start.Add(129*time.Second), "p"), "a throttled pass may wait as long as that")
	require.False(t, d.Lasts(start.Add(131*time.Second), "p"))
	require.False(t, d.Lasts(start.Add(41*time.Second), "q"))
	d.Forget("p")
	require.False(t, d.Lasts(start.Add(41*time.Second), "p"))
}

func TestConflictDetectorAnswers(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := LoopKey{Parent: "p", Object: types.NamespacedName{Name: "a"}}
	tests := map[string]struct {
		reason string
		pause  time.Duration
		found  int // after how many writes; 0: never
	}{
		"At once":      {reason: "a rollout in less than twenty steps a minute is none", pause: 50 * time.Millisecond, found: 20},
		"In a second":  {reason: "as slow as an answer may be", pause: time.Second, found: 20},
		"Every 4 s":    {reason: "fifteen answers a minute are not enough", pause: 4 * time.Second, found: 0},
		"Once an hour": {reason: "what is long ago doesn't count", pause: time.Hour, found: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := NewConflictDetector(0, 0)
			found := 0
			for i := range 100 {
				now := start.Add(time.Duration(i) * tc.pause)
				if d.Answered(now, key) && d.Wrote(now, key, nil) != nil && found == 0 {
					found = i + 1
				}
				if found > 0 {
					require.True(t, d.Answered(now, key), "in a loop each counts")
				}
			}
			require.Equal(t, tc.found, found, tc.reason)
		})
	}
}

// A loop that is over isn't taken up again, though nothing has swept its history away: a
// sweep was made shortly before the loop was over.
func TestConflictDetector_OverAfterASweep(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := NewConflictDetector(0, 0)
	key := LoopKey{Parent: "a", Object: types.NamespacedName{Namespace: "ns", Name: "x"}}
	for i := range 5 {
		d.Wrote(start.Add(time.Duration(i)*time.Second), key, nil)
	}
	require.True(t, d.Active(start.Add(4*time.Second), "a"))
	d.Wrote(start.Add(66*time.Second), LoopKey{Parent: "b"}, nil)
	require.Nil(t, d.Wrote(start.Add(68*time.Second), key, nil))
	require.False(t, d.Active(start.Add(68*time.Second), "a"), "it takes the full number of writes to find the loop again")
}
