package conflict

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

var (
	maps  = resource.Type{APIVersion: "v1", Kind: "ConfigMap"}
	epoch = time.Unix(1_000_000_000, 0)
)

func childKey(name string) Key {
	return Key{Parent: "p", Type: maps, Object: types.NamespacedName{Namespace: "ns", Name: name}}
}

// An update is one of the child "a".
func update(state string) Write {
	return Write{Key: childKey("a"), State: jsonvalue.Sum(state), Fields: []Field{{Path: "data.value", From: "before", To: state}}, Desired: 1}
}

// A step of a life: what happens, and when.
type step struct {
	after time.Duration // since the step before
	write *Write
	edit  bool
	ready bool // a related object changes
}

// TestRules: each rule for itself. A life goes on until a loop is found.
func TestRules(t *testing.T) {
	w := func(state string, with ...func(*Write)) *Write {
		out := update(state)
		for _, change := range with {
			change(&out)
		}
		return &out
	}
	foreign := func(w *Write) { w.Foreign = true }
	excused := func(w *Write) { w.Excused = true }
	status := func(w *Write) { w.Kind = Status }
	creates := func(w *Write) { w.Kind = Create }
	of := func(n int) func(*Write) { return func(w *Write) { w.Desired = n } }
	alternate := func(n int, every time.Duration, states []string, with ...func(*Write)) (steps []step) {
		for i := range n {
			steps = append(steps, step{after: every, write: w(states[i%len(states)], with...)})
		}
		return steps
	}
	fresh := func(n int, every time.Duration, with ...func(*Write)) (steps []step) {
		for i := range n {
			steps = append(steps, step{after: every, write: w(fmt.Sprint(i), with...)})
		}
		return steps
	}
	for name, tc := range map[string]struct {
		reason string
		life   []step
		found  int // the step in which a loop is found, from 1; 0: none is
		as     Throttle
	}{
		"Restore": {"the last state again, five times", alternate(10, time.Second, []string{"a"}), 6, Backoff},
		"Restore, by others": {
			"who else set the reconciliation off makes no difference", alternate(10, time.Second, []string{"a"}, foreign), 6, Backoff,
		},
		"Restore, slowly": {"not within a minute", alternate(20, 16*time.Second, []string{"a"}), 0, None},
		"Restore, edited": {
			"an edit forgets the states, not the restores", append(append(alternate(5, time.Second, []string{"a"}), step{edit: true}), alternate(3, time.Second, []string{"a"})...), 8, Backoff,
		},
		"Flip-flop":             {"of two states", alternate(10, time.Second, []string{"a", "b"}), 7, Backoff},
		"Flip-flop of four":     {"one of the last four", alternate(12, time.Second, []string{"a", "b", "c", "d"}), 9, Backoff},
		"Cycle of five":         {"longer than the memory, so the proof or the rate must find it", alternate(30, time.Second, []string{"a", "b", "c", "d", "e"}), 0, None},
		"Flip-flop, by others":  {"three count as one", alternate(30, time.Second, []string{"a", "b"}, foreign), 17, Backoff},
		"Flip-flop, slow child": {"which flaps every ten seconds", alternate(30, 10*time.Second, []string{"a", "b"}, foreign), 0, None},
		"Rate":                  {"30, and three for the one child", fresh(60, 100*time.Millisecond), 34, Pace},
		"Rate of many":          {"three for each of 20 children", fresh(120, 100*time.Millisecond, of(20)), 91, Pace},
		"Rate, by others":       {"updates that follow another client count tenfold less", fresh(600, 100*time.Millisecond, foreign), 331, Pace},
		"Rate, by others, slow": {"three a second for a minute, for ever", fresh(1000, 333*time.Millisecond, foreign), 0, None},
		"Rate, by Resync":       {"the handler has asked for each", fresh(2000, 10*time.Millisecond, excused), 0, None},
		"Creates, by others":    {"they count in full", fresh(60, 100*time.Millisecond, foreign, creates), 34, Pace},
		"Rate, edited":          {"each edit begins anew", edits(fresh(40, 50*time.Millisecond), 20), 0, None},
		"Status":                {"as the children", fresh(60, 100*time.Millisecond, status), 34, Pace},
		"Status, excused":       {"forty times as many", fresh(1500, 10*time.Millisecond, status, excused), 1321, Pace},
		"Status, excused, slow": {"ten a second, for ever", fresh(3000, 100*time.Millisecond, status, excused), 0, None},
	} {
		t.Run(name, func(t *testing.T) {
			d, now, found := New(), epoch, 0
			for i, s := range tc.life {
				now = now.Add(s.after)
				if s.edit || s.ready {
					d.Forgive("p", s.edit)
				}
				if s.write != nil {
					if v := d.Wrote(now, *s.write); v.Loop != nil && found == 0 {
						found = i + 1
						require.Equal(t, "data.value", v.Loop.Path)
						require.Equal(t, tc.as, d.Throttle(now, "p"))
						require.NotNil(t, d.Current(now, "p"))
					}
				}
			}
			require.Equal(t, tc.found, found, tc.reason)
			if found == 0 {
				require.Equal(t, None, d.Throttle(now, "p"))
			}
		})
	}
}

// edits puts an edit before every so many steps.
func edits(life []step, every int) (out []step) {
	for i, s := range life {
		if i%every == 0 {
			out = append(out, step{edit: true})
		}
		out = append(out, s)
	}
	return out
}

// A proof is due after three new states within a minute, once a minute per parent, and not by Resync.
func TestProof(t *testing.T) {
	d, now := New(), epoch
	next := func(i int, excused bool) {
		now = now.Add(time.Second)
		w := update(fmt.Sprint(i))
		w.Excused = excused
		d.Wrote(now, w)
	}
	for i := range 5 {
		next(i, true)
	}
	require.Empty(t, d.Unclear("p"), "the handler has asked for the reconciliations")
	next(10, false)
	next(11, false)
	require.Empty(t, d.Unclear("p"))
	next(12, false)
	require.Equal(t, map[Key]struct{}{childKey("a"): {}}, d.Unclear("p"))
	require.Empty(t, d.Unclear("p"), "once")
	next(13, false)
	require.Empty(t, d.Unclear("p"), "once a minute")
	now = now.Add(2 * time.Minute)
	for i := range 3 {
		next(20+i, false)
	}
	require.NotEmpty(t, d.Unclear("p"))
	require.NotNil(t, d.Proved(now, childKey("a")))
	require.Nil(t, d.Proved(now, childKey("a")), "it is known")
	require.Equal(t, Backoff, d.Throttle(now, "p"))
}

// A child under a new name inherits the history of the one whose place it takes.
func TestVanished(t *testing.T) {
	created := func(name string) Write {
		return Write{Key: childKey(name), Kind: Create, State: jsonvalue.Sum(name), Desired: 1}
	}
	none := func(Key) bool { return false }
	for name, tc := range map[string]struct {
		reason string
		pause  time.Duration
		there  func(Key) bool
		gone   bool // the engine has deleted the one before
		found  int
	}{
		"Lost each time":   {"another client deletes each", time.Second, none, false, 6},
		"Deleted by us":    {"the handler desires other names", time.Second, none, true, 0},
		"Still there":      {"it is one more", time.Second, func(Key) bool { return true }, false, 0},
		"Lost, but slowly": {"after more than a minute", 61 * time.Second, none, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, now, found := New(), epoch, 0
			for i := range 12 {
				now = now.Add(tc.pause)
				w := created(fmt.Sprint("c", i))
				if vanished := d.Vanished(now, "p", tc.there)[maps]; len(vanished) > 0 {
					d.Inherit(w.Key, vanished[0])
					w.Replaces = true
				}
				if v := d.Wrote(now, w); v.Loop != nil && found == 0 {
					found = i + 1
				}
				if tc.gone {
					gone := w
					gone.Kind, gone.State, gone.Replaces = Delete, Gone, false
					d.Wrote(now, gone)
				}
			}
			require.Equal(t, tc.found, found, tc.reason)
		})
	}
}

// Of several that have vanished, the one with the most repeats comes first, and each is asked for once.
func TestVanished_Order(t *testing.T) {
	d, now := New(), epoch
	for i, name := range []string{"b", "a", "c", "c", "c"} {
		w := Write{Key: childKey(name), Kind: Create, State: jsonvalue.Sum(name), Desired: 4}
		d.Wrote(now.Add(time.Duration(i)*time.Second), w)
	}
	d.Wrote(now, Write{Key: Key{Parent: "p", Type: resource.Type{APIVersion: "v1", Kind: "Pod"}, Object: childKey("d").Object}, Kind: Create, State: jsonvalue.Sum("d")})
	asked := 0
	vanished := d.Vanished(now, "p", func(Key) bool { asked++; return false })
	require.Equal(t, []Key{childKey("c"), childKey("a"), childKey("b")}, vanished[maps])
	require.Len(t, vanished, 2, "each type has its own")
	require.Equal(t, 4, asked)
}

// Children that another client makes, under another name each time, are a loop of their type. Several in a
// reconciliation count once.
func TestIntruders(t *testing.T) {
	d, now := New(), epoch
	for i := range 5 {
		now = now.Add(time.Second)
		for j := range 3 {
			w := Write{Key: childKey(fmt.Sprint(i, j)), Kind: Delete, State: Gone, Intruder: true, Fields: []Field{{Path: "metadata.name"}}}
			v := d.Wrote(now, w)
			require.Equal(t, i == 4 && j == 0, v.Loop != nil, "%d %d", i, j)
			if v.Loop != nil {
				require.Equal(t, Key{Parent: "p", Type: maps}, v.Loop.Key)
			}
		}
	}
}

// A field that is restored at any pace is reported with the restores 5, 10, 20 … It throttles nothing.
func TestFight(t *testing.T) {
	d, now := New(), epoch
	var reported []int
	for i := range 40 {
		now = now.Add(time.Hour)
		w := update("mine")
		w.Restores, w.Foreign = true, true
		if v := d.Wrote(now, w); v.Fight != nil {
			reported = append(reported, i+1)
			require.Equal(t, &Loop{Key: childKey("a"), Path: "data.value", Values: []string{"before", "mine"}, Writes: i + 1}, v.Fight)
		}
		require.Equal(t, None, d.Throttle(now, "p"))
	}
	require.Equal(t, []int{5, 10, 20, 40}, reported)
	w := update("another")
	w.Restores = true
	require.Nil(t, d.Wrote(now.Add(time.Hour), w).Fight, "to another value: from the beginning")
}

// A loop ends with a pause that is longer than the window and three times the pause before. An edit ends its throttle
// until the next write.
func TestEnd(t *testing.T) {
	d, now := New(), epoch
	for range 6 {
		now = now.Add(time.Second)
		d.Wrote(now, update("a"))
	}
	require.Equal(t, Backoff, d.Throttle(now, "p"))
	d.Forgive("p", true)
	require.Equal(t, None, d.Throttle(now, "p"))
	require.True(t, d.Lasts(now, "p"))
	now = now.Add(50 * time.Second)
	d.Wrote(now, update("a"))
	require.Equal(t, Backoff, d.Throttle(now, "p"), "it goes on")
	now = now.Add(3 * time.Minute)
	require.Equal(t, None, d.Throttle(now, "p"), "a quiet minute")
	require.True(t, d.Lasts(now, "p"), "a throttled loop is slow")
	require.False(t, d.Lasts(now.Add(31*time.Second), "p"))
}

// Follow-ups that no client has asked for are a loop, whatever they do.
func TestRepeated(t *testing.T) {
	d, now, key := New(), epoch, Key{Parent: "p", Type: maps}
	for i := 1; i <= maxRepeated; i++ {
		now = now.Add(100 * time.Millisecond)
		require.Equal(t, i == maxRepeated, d.Repeated(now, key, nil) != nil, i)
	}
	require.True(t, d.Loops(now, key))
}

// What is over is forgotten, whatever was written.
func TestForgets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	d, now := New(), epoch
	for range 20_000 {
		now = now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
		w := update(fmt.Sprint(rnd.IntN(9)))
		w.Parent = types.UID(fmt.Sprint("p", rnd.IntN(20)))
		w.Object.Name = fmt.Sprint(rnd.IntN(40))
		w.Kind, w.Foreign, w.Excused, w.Replaces = Kind(rnd.IntN(4)), rnd.IntN(2) == 0, rnd.IntN(2) == 0, rnd.IntN(9) == 0
		d.Wrote(now, w)
	}
	require.Equal(t, 20, d.Len())
	now = now.Add(time.Hour)
	w := update("last")
	w.Parent = "other"
	d.Wrote(now, w)
	require.Equal(t, 1, d.Len())
	d.Forget("other")
	require.Zero(t, d.Len())
}

// A buckets counts what was within a minute, to ten seconds.
func TestBuckets(t *testing.T) {
	var b buckets
	require.Equal(t, 1, b.add(epoch))
	require.Equal(t, 2, b.add(epoch.Add(9*time.Second)))
	require.Equal(t, 3, b.add(epoch.Add(59*time.Second)))
	require.Equal(t, 1, b.sum(epoch.Add(60*time.Second)))
	require.Equal(t, 1, b.sum(epoch.Add(109*time.Second)))
	require.Zero(t, b.sum(epoch.Add(110*time.Second)))
	require.Equal(t, 1, b.add(epoch.Add(time.Hour)))
}

// TestForgive_Related: of a status that follows from itself, the rate is found among changes of related objects, too. Children may
// follow these in several steps.
func TestForgive_Related(t *testing.T) {
	for kind, found := range map[Kind]bool{Status: true, Update: false} {
		d, now, loops := New(), epoch, 0
		for i := range 100 {
			now = now.Add(500 * time.Millisecond)
			d.Forgive("p", false)
			w := update(fmt.Sprint(i))
			w.Kind = kind
			if d.Wrote(now, w).Loop != nil {
				loops++
			}
		}
		require.Equal(t, found, loops > 0)
		if found {
			require.Equal(t, Pace, d.Throttle(now, "p"))
		}
	}
}
