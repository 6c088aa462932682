package failable

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNextGrows(t *testing.T) {
	b := ErrorBackoff{Config: plain()}
	req := version{}.request(t)
	want := float64(500 * time.Millisecond)
	for range 18 {
		wait, ok := b.Next(req)
		require.True(t, ok)
		require.InDelta(t, want, float64(wait), 1)
		want *= 1.5
	}
	for range 3 {
		wait, ok := b.Next(req)
		require.True(t, ok)
		require.Equal(t, 10*time.Minute, wait, "that is as long as it gets")
	}
	b.Reset(req)
	wait, _ := b.Next(req)
	require.Equal(t, 500*time.Millisecond, wait, "after a success it begins again")
}

func TestNextPerParent(t *testing.T) {
	b := ErrorBackoff{Config: plain()}
	one, other := version{uid: "one"}.request(t), version{uid: "other"}.request(t)
	for range 5 {
		b.Next(one)
	}
	wait, _ := b.Next(other)
	require.Equal(t, 500*time.Millisecond, wait, "another parent's errors don't count")
	b.Reset(other)
	wait, _ = b.Next(one)
	require.Greater(t, wait, time.Second, "nor do its successes")
	wait, ok := b.Next(nil)
	require.True(t, ok)
	require.Positive(t, wait, "no request is a parent of its own")
}

func TestNextJitter(t *testing.T) {
	for _, rnd := range []float64{0, 0.25, 0.999} {
		b := ErrorBackoff{rnd: func() float64 { return rnd }}
		wait, _ := b.Next(version{}.request(t))
		require.InDelta(t, float64(500*time.Millisecond)*(0.5+rnd), float64(wait), 1)
	}
	var b ErrorBackoff
	seen := map[time.Duration]bool{}
	for i := range 20 {
		wait, _ := b.Next(version{uid: fmt.Sprint(i)}.request(t))
		seen[wait] = true
	}
	require.Greater(t, len(seen), 1, "parents that fail together aren't retried together")
}

func TestNextFixedAndNever(t *testing.T) {
	fixed, never := ErrorBackoff{Config: FixedInterval(7 * time.Second)}, ErrorBackoff{Config: NeverRetry()}
	req := version{}.request(t)
	for range 10 {
		wait, ok := fixed.Next(req)
		require.True(t, ok)
		require.Equal(t, 7*time.Second, wait)
		_, ok = never.Next(req)
		require.False(t, ok)
	}
	require.Empty(t, never.mu.failing, "nothing to remember")
}

// A step is a call of Next some time after the one before it.
type step struct {
	after time.Duration
	of    version
	want  time.Duration // 0: gives up
}

func TestNextOverTime(t *testing.T) {
	const ms = time.Millisecond
	cases := map[string]struct {
		reason string
		config BackoffConfig
		steps  []step
	}{
		"OwnStatus": {
			"the pass that follows the write of the status isn't a retry",
			plain(),
			[]step{
				{0, version{revision: 1, generation: 1}, 500 * ms},
				{0, version{revision: 2, generation: 1}, 500 * ms},
				{500 * ms, version{revision: 2, generation: 1}, 750 * ms},
			},
		},
		"BusyChildren": {
			"however often a child changes, the retry comes when it was due",
			plain(),
			[]step{
				{0, version{pod: 1}, 500 * ms},
				{100 * ms, version{pod: 2}, 400 * ms},
				{100 * ms, version{pod: 3}, 300 * ms},
				{100 * ms, version{}, 200 * ms},
				{200 * ms, version{}, 750 * ms},
				{750 * ms, version{pod: 4}, 1125 * ms},
			},
		},
		"SameSnapshot": {
			"a handler that calls Next for one snapshot again has tried again",
			plain(),
			[]step{{0, version{}, 500 * ms}, {10 * ms, version{}, 750 * ms}},
		},
		"NewGeneration": {
			"an edit of the parent starts over",
			plain(),
			[]step{
				{0, version{generation: 1}, 500 * ms},
				{500 * ms, version{generation: 1}, 750 * ms},
				{10 * ms, version{generation: 2}, 500 * ms},
			},
		},
		"GivesUp": {
			"the row began with its first error, and an edit begins another one",
			BackoffConfig{RandomizationFactor: -1, GiveUpAfter: 2 * time.Second},
			[]step{
				{0, version{generation: 1}, 500 * ms},
				{500 * ms, version{generation: 1}, 750 * ms},
				{750 * ms, version{generation: 1}, 1125 * ms},
				{1125 * ms, version{generation: 1}, 0},
				{0, version{generation: 1, pod: 1}, 0},
				{time.Minute, version{generation: 1, pod: 1}, 0},
				{time.Minute, version{generation: 2, pod: 1}, 500 * ms},
			},
		},
		"GivesUpEarly": {
			"given up on is given up on, though an earlier retry was still to come",
			BackoffConfig{InitialInterval: time.Hour, MaxInterval: time.Hour, RandomizationFactor: -1, GiveUpAfter: time.Second},
			[]step{{0, version{}, time.Hour}, {time.Minute, version{}, 0}, {0, version{revision: 1}, 0}},
		},
		"Forgotten": {
			"an error long after the last one is the first of a new row",
			BackoffConfig{RandomizationFactor: -1, GiveUpAfter: time.Second},
			[]step{{0, version{}, 500 * ms}, {time.Second, version{}, 0}, {time.Hour, version{}, 0}, {time.Hour + 1, version{}, 500 * ms}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := ErrorBackoff{Config: tc.config}
				for i, s := range tc.steps {
					<-time.After(s.after)
					wait, ok := b.Next(s.of.request(t))
					require.Equal(t, s.want > 0, ok, "step %d: %s", i, tc.reason)
					require.Equal(t, s.want, wait, "step %d: %s", i, tc.reason)
				}
			})
		})
	}
}

func TestDeletedParentsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b ErrorBackoff
		for i := range 1000 {
			b.Next(version{uid: fmt.Sprint(i)}.request(t))
		}
		require.Len(t, b.mu.failing, 1000)
		failing := version{uid: "999"}.request(t)
		for range 13 {
			<-time.After(10 * time.Minute)
			b.Next(failing)
		}
		require.Len(t, b.mu.failing, 1, "only the one that still fails is left")
		wait, _ := b.Next(failing)
		require.Greater(t, wait, 20*time.Second, "and it has kept its place")
		b.Reset(failing)
		require.Empty(t, b.mu.failing)
	})
}

func TestErrorBackoffConcurrently(t *testing.T) {
	var b ErrorBackoff
	var all sync.WaitGroup
	for i := range 8 {
		req := version{uid: fmt.Sprint(i % 4)}.request(t)
		all.Go(func() {
			for range 100 {
				b.Next(req)
			}
			b.Reset(req)
		})
	}
	all.Wait()
}

func FuzzNext(f *testing.F) {
	f.Add(int64(0), int64(0), 0.0, 0.0, 0.5)
	f.Add(int64(time.Second), int64(time.Hour), 2.0, 1.0, 0.0)
	f.Add(int64(1), int64(1)<<62, 1e300, -1.0, 0.999)
	f.Add(int64(-5), int64(3), 0.1, 0.001, 0.1)
	f.Fuzz(func(t *testing.T, initial, longest int64, multiplier, randomization, rnd float64) {
		if !(rnd >= 0 && rnd < 1) {
			t.Skip("not a random number")
		}
		config := BackoffConfig{
			InitialInterval:     time.Duration(initial),
			MaxInterval:         time.Duration(longest),
			Multiplier:          multiplier,
			RandomizationFactor: randomization,
		}
		c := config.curve()
		req := version{}.request(t)
		varied := ErrorBackoff{Config: config, rnd: func() float64 { return rnd }}
		for range 100 {
			wait, ok := varied.Next(req)
			require.True(t, ok)
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, duration(c.max*(1+c.randomization)))
		}
		config.RandomizationFactor = -1
		steady := ErrorBackoff{Config: config}
		before := duration(c.initial)
		for range 100 {
			wait, ok := steady.Next(req)
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, before)
			require.LessOrEqual(t, wait, duration(c.max))
			before = wait
		}
	})
}
