package storm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/roperator/roperator/internal/testing/faults"
)

// ErrExternal is what a call of an outside system ends with that a fault has met.
var ErrExternal = errors.New("the outside system doesn't answer")

// An External makes the calls of an outside system meet faults. The zero value makes none.
type External struct {
	world atomic.Pointer[world]
	busy  atomic.Bool // it is part of a Storm
}

// Call does what testkit.External.Call says.
func (e *External) Call(ctx context.Context, name string, do func() error) error {
	w := e.world.Load()
	p, _ := ctx.Value(processKey{}).(*process)
	if w == nil || p == nil || p.world != w {
		return do()
	}
	if isCheck(ctx) || w.dice.Over() {
		return p.alive(do)
	}
	f := w.dice.next("call "+name, external)
	if w.areSilent() {
		f.Outcome = faults.BreakBefore
	}
	w.told(p, "calls "+name, f)
	if err := p.Sleep(ctx, f.Delay); err != nil {
		return err
	}
	lost := fmt.Errorf("%s: %w", name, ErrExternal)
	switch f.Outcome {
	case faults.KillBefore:
		p.Kill()
		return faults.ErrDead
	case faults.BreakBefore:
		return lost
	case faults.Twice:
		_ = p.alive(do)
	}
	err := p.alive(do)
	switch f.Outcome {
	case faults.KillAfter:
		if p.killNow() {
			return faults.ErrDead
		}
	case faults.BreakAfter:
		return lost
	}
	return err
}

// alive does something unless the process is dead.
func (p *process) alive(do func() error) error {
	if p.Killed() {
		return faults.ErrDead
	}
	return do()
}

type (
	processKey struct{}
	checkKey   struct{}
)

// isCheck says whether a call is there to check the handler, not to serve the operator.
func isCheck(ctx context.Context) bool { return ctx.Value(checkKey{}) != nil }
