package storm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
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
	if isCheck(ctx) || w.dice.over() {
		return p.alive(do)
	}
	f := w.dice.next("call "+name, external)
	if w.areSilent() {
		f.Outcome = breakBefore
	}
	w.told(p, "calls "+name, f)
	if err := p.sleep(ctx, f.Delay); err != nil {
		return err
	}
	lost := fmt.Errorf("%s: %w", name, ErrExternal)
	switch f.Outcome {
	case killBefore:
		p.kill()
		return errDead
	case breakBefore:
		return lost
	case twice:
		_ = p.alive(do)
	}
	err := p.alive(do)
	switch f.Outcome {
	case killAfter:
		if p.killNow() {
			return errDead
		}
	case breakAfter:
		return lost
	}
	return err
}

// alive does something unless the process is dead.
func (p *process) alive(do func() error) error {
	if p.killed.Load() {
		return errDead
	}
	return do()
}

type (
	processKey struct{}
	checkKey   struct{}
)

// isCheck says whether a call is there to check the handler, not to serve the operator.
func isCheck(ctx context.Context) bool { return ctx.Value(checkKey{}) != nil }

// sleep returns an error if the request or the process ends meanwhile.
func (p *process) sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-p.dead:
		}
	}
	if p.killed.Load() {
		return errDead
	}
	return ctx.Err()
}
