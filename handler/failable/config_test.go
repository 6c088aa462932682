package failable

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCurve(t *testing.T) {
	defaults := curve{initial: 5e8, max: 6e11, multiplier: 1.5, randomization: 0.5}
	cases := map[string]struct {
		reason string
		config BackoffConfig
		want   curve
	}{
		"Zero": {"the zero value is the default", BackoffConfig{}, defaults},
		"Negative": {
			"negative values mean the default, but no randomization",
			BackoffConfig{InitialInterval: -1, Multiplier: -1, MaxInterval: -1, RandomizationFactor: -0.1},
			curve{initial: 5e8, max: 6e11, multiplier: 1.5},
		},
		"NotANumber": {
			"what is no number means the default",
			BackoffConfig{Multiplier: math.NaN(), RandomizationFactor: math.NaN()}, defaults,
		},
		"Shrinking": {
			"intervals never shrink, and never vary by more than all of them",
			BackoffConfig{Multiplier: 0.5, RandomizationFactor: 7},
			curve{initial: 5e8, max: 6e11, multiplier: 1, randomization: 1},
		},
		"InitialAboveMax": {
			"the maximum wins",
			BackoffConfig{InitialInterval: time.Hour, MaxInterval: time.Second},
			curve{initial: 1e9, max: 1e9, multiplier: 1.5, randomization: 0.5},
		},
		"Infinite": {
			"an infinite multiplier jumps to the maximum",
			BackoffConfig{Multiplier: math.Inf(1), RandomizationFactor: math.Inf(-1)},
			curve{initial: 5e8, max: 6e11, multiplier: math.Inf(1)},
		},
		"Fixed": {"a fixed interval neither grows nor varies", FixedInterval(time.Minute), curve{initial: 6e10, max: 6e10, multiplier: 1}},
		"FixedZero": {
			"an interval of 0 would be a retry that never comes, so it isn't one",
			FixedInterval(0), curve{initial: 5e8, max: 5e8, multiplier: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.config.curve(), tc.reason)
		})
	}
}

func TestRandomized(t *testing.T) {
	cases := map[string]struct {
		reason   string
		factor   float64
		interval time.Duration
		rnd      float64
		want     time.Duration
	}{
		"Least":   {"down by the factor", 0.5, time.Second, 0, 500 * time.Millisecond},
		"Middle":  {"the interval is in the middle", 0.5, time.Second, 0.5, time.Second},
		"Most":    {"up by the factor", 0.5, time.Second, 1, 1500 * time.Millisecond},
		"None":    {"no jitter", -1, time.Second, 1, time.Second},
		"NotZero": {"0 would mean never", 1, time.Second, 0, time.Millisecond},
		"Tiny":    {"an interval below a millisecond isn't made longer", 1, time.Microsecond, 0, time.Microsecond},
		"Huge":    {"what no Duration can hold is the longest one", 1, math.MaxInt64, 1, math.MaxInt64},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := BackoffConfig{RandomizationFactor: tc.factor}.curve()
			require.Equal(t, tc.want, c.randomized(float64(tc.interval), tc.rnd), tc.reason)
		})
	}
}

func TestMemory(t *testing.T) {
	cases := map[string]struct {
		reason string
		config BackoffConfig
		want   time.Duration
	}{
		"Short":   {"at least an hour", FixedInterval(time.Second), time.Hour},
		"Default": {"10 min may become 15, and twice that is half an hour", BackoffConfig{}, time.Hour},
		"Long":    {"twice the longest interval", FixedInterval(24 * time.Hour), 48 * time.Hour},
		"Endless": {"as long as there is", BackoffConfig{MaxInterval: math.MaxInt64}, math.MaxInt64},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.config.curve().memory(), tc.reason)
		})
	}
}
