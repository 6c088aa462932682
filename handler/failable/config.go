package failable

import (
	"math"
	"time"
)

const (
	defaultInitialInterval     = 500 * time.Millisecond
	defaultMaxInterval         = 10 * time.Minute
	defaultMultiplier          = 1.5
	defaultRandomizationFactor = 0.5

	// minInterval is what jitter may at most shrink an interval to.
	minInterval = time.Millisecond
)

// A BackoffConfig says when to try again after an error. The zero value is the
// default of an [ErrorBackoff]: 500 ms, half as much again after each further
// error up to 10 minutes, all of it varied by up to a half, for as long as it
// takes. (As Options.Backoff it means the engine's backoff.) A field that is
// out of range is brought into it.
type BackoffConfig struct {
	// InitialInterval is how long to wait after the first error; default
	// 500 ms. It is at most MaxInterval.
	InitialInterval time.Duration
	// Multiplier is what the interval is multiplied by after each further
	// error; default 1.5, at least 1.
	Multiplier float64
	// MaxInterval is how long the interval gets before it is randomized;
	// default 10 min.
	MaxInterval time.Duration
	// RandomizationFactor varies each interval by up to this share of it,
	// either way, so that parents which failed at the same time aren't all
	// tried again at the same time; default 0.5, at most 1. Negative means
	// none.
	RandomizationFactor float64
	// GiveUpAfter ends the retries: an error that comes at least this long
	// after the first one of its row isn't retried. 0 means never; negative
	// means at once, see [NeverRetry].
	GiveUpAfter time.Duration
}

// FixedInterval returns the configuration that always waits d, neither growing
// nor randomized. A d of 0 or less means the default InitialInterval.
func FixedInterval(d time.Duration) BackoffConfig {
	if d <= 0 {
		d = defaultInitialInterval
	}
	return BackoffConfig{InitialInterval: d, Multiplier: 1, MaxInterval: d, RandomizationFactor: -1}
}

// NeverRetry returns the configuration under which no error is retried before
// the parent, a child or a related object changes, as if each was wrapped with
// handler.Permanent.
func NeverRetry() BackoffConfig { return BackoffConfig{GiveUpAfter: -1} }

// A curve is a BackoffConfig with its defaults, and every value in its range.
// Intervals are in nanoseconds.
type curve struct {
	initial, max  float64
	multiplier    float64
	randomization float64
}

func (c BackoffConfig) curve() curve {
	out := curve{
		initial:       float64(c.InitialInterval),
		max:           float64(c.MaxInterval),
		multiplier:    c.Multiplier,
		randomization: c.RandomizationFactor,
	}
	if out.initial <= 0 {
		out.initial = float64(defaultInitialInterval)
	}
	if out.max <= 0 {
		out.max = float64(defaultMaxInterval)
	}
	out.initial = min(out.initial, out.max)
	if !(out.multiplier > 0) { // or not a number
		out.multiplier = defaultMultiplier
	}
	out.multiplier = max(1, out.multiplier)
	if out.randomization == 0 || math.IsNaN(out.randomization) {
		out.randomization = defaultRandomizationFactor
	}
	out.randomization = min(max(0, out.randomization), 1)
	return out
}

// after returns the interval that follows another one, of which 0 is none.
func (c curve) after(interval float64) float64 {
	if interval == 0 {
		return c.initial
	}
	return min(interval*c.multiplier, c.max)
}

// randomized varies an interval by rnd, a number from 0 to 1.
func (c curve) randomized(interval, rnd float64) time.Duration {
	varied := interval * (1 - c.randomization + 2*c.randomization*rnd)
	return duration(max(varied, min(interval, float64(minInterval))))
}

// longest returns the longest interval that randomized may return.
func (c curve) longest() time.Duration { return duration(c.max * (1 + c.randomization)) }

// duration converts what may be more than a Duration can hold.
func duration(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
