package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/resource/k8s"
)

// start is a time at which a step begins.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// entry is a pass without writes.
func entry(n int) Entry {
	return Entry{Start: start().Add(time.Duration(n) * time.Second), Took: time.Millisecond, Trigger: fmt.Sprint("trigger ", n)}
}

// write is a write of a ConfigMap.
func write(name string) WriteEntry {
	return WriteEntry{
		Object: object.Ref{Type: k8s.ConfigMap, Key: types.NamespacedName{Namespace: "shop", Name: name}}, Verb: "update", Took: 3 * time.Millisecond,
		Result: Written, Fields: []string{"data.key"}, MoreFields: 2,
	}
}

// triggersOf returns the triggers of the passes over a parent, the newest first.
func triggersOf(j *Journal, parent types.UID) (triggers []string) {
	for _, p := range j.Passes(parent) {
		triggers = append(triggers, p.Trigger)
	}
	return triggers
}

func TestPassIsShown(t *testing.T) {
	j := New()
	failed := write("b")
	failed.Result, failed.Err = Failed, errors.New("refused")
	j.Note("one", Entry{
		ID: "abc", Start: start(), Took: 1500 * time.Microsecond, Waited: time.Millisecond, Trigger: "Site shop/web", More: 2, Call: "Sync", CallTook: 250 * time.Microsecond,
		Err: errors.New("it failed"), Throttled: true, Writes: []WriteEntry{write("a"), failed}, MoreWrites: 4,
	})
	cm := func(name string) Object {
		return Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}
	}
	require.Equal(t, []Pass{{
		Number: 1, ID: "abc", Start: start(), Millis: 1.5, WaitedMillis: 1, Trigger: "Site shop/web", More: 2, Call: "Sync", CallMillis: 0.25, Error: "it failed", Throttled: true,
		Writes: []Write{
			{Object: cm("a"), Verb: "update", Millis: 3, Result: Written, Fields: []string{"data.key"}, MoreFields: 2},
			{Object: cm("b"), Verb: "update", Millis: 3, Result: Failed, Error: "refused", Fields: []string{"data.key"}, MoreFields: 2},
		},
		MoreWrites: 4,
	}}, j.Passes("one"))
	number, at := j.Last("one")
	require.Equal(t, uint64(1), number)
	require.Equal(t, start(), at)
}

func TestOfAParent(t *testing.T) {
	j := New()
	for n := range PassesOfParent + 5 {
		j.Note("busy", entry(n))
	}
	j.Note("quiet", entry(0))
	busy := triggersOf(j, "busy")
	require.Len(t, busy, PassesOfParent)
	require.Equal(t, fmt.Sprint("trigger ", PassesOfParent+4), busy[0], "the newest first")
	require.Equal(t, "trigger 5", busy[PassesOfParent-1], "the oldest had to go")
	require.Equal(t, []string{"trigger 0"}, triggersOf(j, "quiet"), "a busy parent takes nobody else's place")
	require.Empty(t, j.Passes("nobody"))

	j.Forget("busy")
	require.Empty(t, j.Passes("busy"))
	require.Equal(t, []string{"trigger 0"}, triggersOf(j, "quiet"))
	require.Equal(t, 1, j.mu.kept.n)
}

// TestBounds: however much is noted, so much is kept and no more.
func TestBounds(t *testing.T) {
	cases := map[string]struct {
		reason string
		writes int
		want   int // passes that are kept
	}{
		"Passes": {"There are as many passes as fit, of the newest.", 0, maxPasses},
		"Writes": {"Passes with many writes take the place of more than one.", WritesOfPass, maxWrites / WritesOfPass},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := New()
			for n := range maxPasses + 1000 {
				e := entry(n)
				for range tc.writes {
					e.Writes = append(e.Writes, write("a"))
				}
				j.Note(types.UID(fmt.Sprint("uid-", n)), e)
			}
			require.Equal(t, tc.want, j.mu.kept.n, tc.reason)
			require.Len(t, j.mu.families, tc.want, "what has no pass is forgotten")
			require.LessOrEqual(t, len(j.mu.records), maxPasses)
			require.LessOrEqual(t, j.mu.writes, maxWrites)
			last := maxPasses + 999
			require.Len(t, j.Passes(types.UID(fmt.Sprint("uid-", last))), 1)
			require.Empty(t, j.Passes("uid-0"))
		})
	}
}

// TestAgainstAModel compares a journal with lists, over random histories.
func TestAgainstAModel(t *testing.T) {
	for seed := range budget.Runs(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		j, model := New(), map[types.UID][]string{}
		for n := range 3000 {
			uid := types.UID(fmt.Sprint(r.IntN(12)))
			if r.IntN(40) == 0 {
				j.Forget(uid)
				delete(model, uid)
				continue
			}
			j.Note(uid, entry(n))
			model[uid] = append([]string{fmt.Sprint("trigger ", n)}, model[uid]...)
			model[uid] = model[uid][:min(len(model[uid]), PassesOfParent)]
		}
		total := 0
		for uid, want := range model {
			require.Equal(t, want, triggersOf(j, uid), "seed %d", seed)
			total += len(want)
		}
		require.Equal(t, total, j.mu.kept.n)
		require.Equal(t, len(j.mu.records), j.mu.kept.n+j.mu.free.n, "no record is lost")
	}
}

// TestFullJournalAllocatesNothing: what a pass costs doesn't grow with a journal.
func TestFullJournalAllocatesNothing(t *testing.T) {
	j := New()
	uids := make([]types.UID, 1000)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprint(i))
	}
	for n := range 20 * maxPasses {
		j.Note(uids[n%len(uids)], Entry{Start: start(), Took: time.Millisecond, Trigger: "resync"})
	}
	n := 0
	require.Zero(t, testing.AllocsPerRun(10_000, func() {
		j.Note(uids[n%len(uids)], Entry{Start: start(), Took: time.Millisecond, Trigger: "resync"})
		n++
	}))
}

func TestTexts(t *testing.T) {
	j := New()
	long := strings.Repeat("ü", maxText)
	failed := write("a")
	failed.Result, failed.Err = Failed, errors.New(long)
	j.Note("one", Entry{Start: start(), Err: errors.New(long), Writes: []WriteEntry{failed}})
	j.Tell(start(), "one", "Warning", "Failed", long)
	for _, text := range []string{j.Passes("one")[0].Error, j.Passes("one")[0].Writes[0].Error, j.Events("one")[0].Message} {
		require.LessOrEqual(t, len(text), maxText+len("…"))
		require.Equal(t, strings.ToValidUTF8(text, "?"), text, "no character is cut in two")
	}
}

func TestEvents(t *testing.T) {
	j := New()
	require.Empty(t, j.Events("one"))
	for n := range maxEvents + 10 {
		j.Tell(start().Add(time.Duration(n)*time.Second), types.UID(fmt.Sprint(n%2)), "Normal", "Created", fmt.Sprint("event ", n))
	}
	got := j.Events("1")
	require.Len(t, got, maxEventsShown)
	require.Equal(t, Event{start().Add((maxEvents + 9) * time.Second), "Normal", "Created", fmt.Sprint("event ", maxEvents+9)}, got[0], "the newest first")
	require.Equal(t, fmt.Sprint("event ", maxEvents+7), got[1].Message)
	require.Len(t, j.mu.events.events, maxEvents)
	j.Forget("1")
	require.Empty(t, j.Events("1"))
	require.Len(t, j.Events("0"), maxEventsShown)
}

func TestPlots(t *testing.T) {
	j := New()
	now := start().Add(time.Hour)
	writes := func(verbs ...string) (out []WriteEntry) {
		for _, verb := range verbs {
			w := write("a")
			w.Verb = verb
			out = append(out, w)
		}
		return out
	}
	failed := writes("create")
	failed[0].Result = Failed
	at := func(ago time.Duration, e Entry) { e.Start = now.Add(-ago); j.Note("one", e) }
	at(20*time.Minute, Entry{Err: errors.New("long ago")})
	at(15*time.Minute, Entry{Err: errors.New("in the place of the last step")})
	at(12*time.Second, Entry{Writes: writes("create", "apply", "recreate"), Queue: 7, Event: start(), FirstWrite: start().Add(100 * time.Millisecond)})
	at(11*time.Second, Entry{Writes: writes("delete", "update status", "adopt"), Queue: 3, MoreWrites: 2})
	at(0, Entry{Err: errors.New("now"), Writes: failed})
	got := j.Plots(now)
	require.Len(t, got.Passes, steps)
	require.Equal(t, 10, got.StepSeconds)
	require.Equal(t, now.Add(10*time.Second), got.Until)
	last := func(list []int) []int { return list[steps-3:] }
	require.Equal(t, []int{2, 0, 1}, last(got.Passes))
	require.Equal(t, []int{0, 0, 1}, last(got.Errors))
	require.Equal(t, []int{7, 0, 0}, last(got.Queue))
	for verb, want := range map[string][]int{"create": {1, 0, 0}, "update": {2, 0, 0}, "delete": {1, 0, 0}, "status": {1, 0, 0}, "other": {3, 0, 0}} {
		require.Equal(t, want, last(got.Writes[verb]), verb)
	}
	require.InEpsilon(t, 100, got.P95[steps-3], 0.42, "the class ends at no more than the root of two times the latency")
	require.InDelta(t, got.P50[steps-3], got.P95[steps-3], 0)
	sum := 0
	for _, n := range got.Passes {
		sum += n
	}
	require.Equal(t, 3, sum, "what is older than fifteen minutes isn't shown")
	for _, later := range []time.Duration{15 * time.Minute, 24 * time.Hour} {
		require.NotContains(t, j.Plots(now.Add(later+20*time.Second)).Passes, 1)
	}
}

func TestNilKeepsNothing(t *testing.T) {
	var j *Journal
	j.Note("one", entry(1))
	j.Tell(start(), "one", "Normal", "Created", "")
	j.Forget("one")
	require.Empty(t, j.Passes("one"))
	require.Empty(t, j.Events("one"))
	require.Len(t, j.Plots(start()).Passes, steps)
	number, at := j.Last("one")
	require.Zero(t, number)
	require.True(t, at.IsZero())
}

// TestConcurrently is for the race detector.
func TestConcurrently(*testing.T) {
	j := New()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 500 {
				uid := types.UID(fmt.Sprint(worker, n%7))
				j.Note(uid, Entry{Start: start(), Writes: []WriteEntry{write("a")}})
				j.Tell(start(), uid, "Normal", "Created", "x")
				_ = j.Passes(uid)
				_ = j.Events(uid)
				_ = j.Plots(start())
				if n%50 == 0 {
					j.Forget(uid)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkNote(b *testing.B) {
	j := New()
	uids := make([]types.UID, 10_000)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprint(i))
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		j.Note(uids[n%len(uids)], Entry{Start: start(), Took: time.Millisecond, Trigger: "resync"})
	}
}
