package storm

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/faults"
)

var errTaken = errors.New("the name is taken")

// scripted returns a process that meets these faults.
func scripted(script ...faults.Fault) *process {
	w := &world{begin: time.Now(), pace: bubblePace(), dice: played(script)}
	return w.newProcess("process 1", func() {})
}

// callOf returns what calls an outside system for a process.
func callOf(p *process) (*External, context.Context) {
	e := &External{}
	e.world.Store(p.world)
	return e, context.WithValue(context.Background(), processKey{}, p)
}

func TestExternalWithoutStorm(t *testing.T) {
	p, another := scripted(), scripted()
	e, ctx := callOf(p)
	for name, tc := range map[string]struct {
		reason string
		e      *External
		ctx    context.Context //nolint:containedctx // of a case
	}{
		"Zero":        {"outside of a Storm there are no faults", &External{}, context.Background()},
		"ZeroIn":      {"a system that Storm doesn't know is left alone", &External{}, ctx},
		"NoProcess":   {"whoever calls it isn't the handler", e, context.Background()},
		"AnotherRun":  {"a call of a run that is over", e, context.WithValue(context.Background(), processKey{}, another)},
		"CallOfCheck": {"a call that checks the handler meets none", e, context.WithValue(ctx, checkKey{}, true)},
	} {
		t.Run(name, func(t *testing.T) {
			p.world.dice = played([]faults.Fault{{Name: "call create a", N: 1, Outcome: faults.BreakBefore}})
			another.world.dice = p.world.dice
			for _, want := range []error{nil, errTaken} {
				times := 0
				err := tc.e.Call(tc.ctx, "create a", func() error { times++; return want })
				require.Equal(t, want, err, "%s: the error is that of the call", tc.reason)
				require.Equal(t, 1, times, "%s: it is done once", tc.reason)
			}
			require.Empty(t, p.world.dice.Met(), tc.reason)
		})
	}
}

func TestExternalMeetsFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, outcome string
		times           int
		is              error
		killed          bool
	}{
		"None":        {"nothing is met", "", 1, errTaken, false},
		"Late":        {"the error is that of the call", faults.Late, 1, errTaken, false},
		"BreakBefore": {"nothing was done", faults.BreakBefore, 0, ErrExternal, false},
		"BreakAfter":  {"it was done, and nobody knows", faults.BreakAfter, 1, ErrExternal, false},
		"Twice":       {"the second answer is the answer", faults.Twice, 2, errTaken, false},
		"KillBefore":  {"nothing was done", faults.KillBefore, 0, faults.ErrDead, true},
		"KillAfter":   {"it was done", faults.KillAfter, 1, faults.ErrDead, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := scripted(faults.Fault{Name: "call create a", N: 2, Outcome: tc.outcome})
			e, ctx := callOf(p)
			require.NoError(t, e.Call(ctx, "create a", func() error { return nil }), "the first meets nothing")
			times := 0
			err := e.Call(ctx, "create a", func() error { times++; return errTaken })
			require.ErrorIs(t, err, tc.is, tc.reason)
			require.Equal(t, tc.times, times, tc.reason)
			require.Equal(t, tc.killed, p.Killed(), tc.reason)
		})
	}
}

func TestExternalNamesTheCall(t *testing.T) {
	e, ctx := callOf(scripted(faults.Fault{Name: "call create a", N: 1, Outcome: faults.BreakBefore}))
	err := e.Call(ctx, "create a", func() error { return nil })
	require.EqualError(t, err, "create a: the outside system doesn't answer", "the handler's error says what was asked")
}

func TestExternalOfADeadProcess(t *testing.T) {
	for name, ctxOf := range map[string]func(context.Context) context.Context{
		"Call":  func(ctx context.Context) context.Context { return ctx },
		"Check": func(ctx context.Context) context.Context { return context.WithValue(ctx, checkKey{}, true) },
	} {
		t.Run(name, func(t *testing.T) {
			p := scripted()
			e, ctx := callOf(p)
			p.Kill()
			err := e.Call(ctxOf(ctx), "create a", func() error { t.Error("a dead process does nothing"); return nil })
			require.ErrorIs(t, err, faults.ErrDead)
		})
	}
}

func TestExternalWhenHealed(t *testing.T) {
	p := scripted(faults.Fault{Name: "call create a", N: 1, Outcome: faults.BreakBefore})
	e, ctx := callOf(p)
	p.world.dice.Heal()
	require.NoError(t, e.Call(ctx, "create a", func() error { return nil }), "the faults are over")
}

func TestExternalIsLate(t *testing.T) {
	late := faults.Fault{Name: "call create a", N: 1, Outcome: faults.Late, Delay: 3 * time.Second}
	for name, tc := range map[string]struct {
		reason string
		after  time.Duration // when something else happens
		what   func(p *process, cancel func())
		took   time.Duration
		is     error
	}{
		"Late":     {"it is done later", time.Second, func(*process, func()) {}, 3 * time.Second, nil},
		"Canceled": {"a call heeds its context", time.Second, func(_ *process, cancel func()) { cancel() }, time.Second, context.Canceled},
		"Killed":   {"it ends with its process", time.Second, func(p *process, _ func()) { p.Kill() }, time.Second, faults.ErrDead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := scripted(late)
				e, ctx := callOf(p)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				time.AfterFunc(tc.after, func() { tc.what(p, cancel) })
				begin, done := time.Now(), false
				err := e.Call(ctx, "create a", func() error { done = true; return nil })
				require.Equal(t, tc.took, time.Since(begin), tc.reason)
				require.ErrorIs(t, err, tc.is, tc.reason)
				require.Equal(t, tc.is == nil, done, tc.reason)
			})
		})
	}
}

func TestExternalIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted()
		e, ctx := callOf(p)
		p.world.setSilent(10 * time.Second)
		require.ErrorIs(t, e.Call(ctx, "a", func() error { t.Error("it can't be reached"); return nil }), ErrExternal)
		<-time.After(10 * time.Second)
		require.NoError(t, e.Call(ctx, "a", func() error { return nil }), "it answers again")
	})
}
