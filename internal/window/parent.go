package window

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
)

// explainEvery is how long after an explanation another one of the same parent begins, at the earliest.
const explainEvery = 2 * time.Second

// explainAgain is how long after one that has failed.
const explainAgain = 10 * time.Second

// serveParent streams one parent.
func (w *Window) serveParent(ctx context.Context, a *answer, t target) {
	release := w.source.Tap(t.operator, t.parent)
	defer release()
	p := &parentStream{stream: w.stream(a), window: w, target: t}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan explain.Process, 1)
	wg.Go(func() { // ends with ctx
		defer cancel() // the client can't be told anything any more
		p.explainAll(ctx, changed)
	})
	if p.send("begin", begun{t.operator}) == nil {
		every(ctx, lookEvery, func() error { return p.tellFamily(changed) })
	}
}

// A parentStream is one client's. The goroutine that tells of the family owns the fields below.
type parentStream struct {
	*stream
	window *Window
	target target

	asked   bool   // for an explanation
	known   bool   // the operator knew the parent when it was last looked at
	version string // of the family when an explanation was last asked for
	told    []byte // the last family that was sent
}

// tellFamily sends what is known of the parent if it has changed, and asks for an explanation then. changed
// gets what the process knows.
func (p *parentStream) tellFamily(changed chan explain.Process) error {
	family, known, err := p.look()
	if err != nil {
		return err
	}
	if !p.asked || p.known != known || p.version != family.Version {
		first := !p.asked
		was := p.known
		p.asked, p.known, p.version = true, known, family.Version
		select { // the newest counts
		case <-changed:
		default:
		}
		changed <- family.Process
		if !known && (first || was) {
			p.told = nil
			if err := p.send("unknown", struct{}{}); err != nil {
				return err
			}
		}
	}
	if !known {
		return p.tick()
	}
	body, err := json.Marshal(family)
	if err != nil {
		p.log.Error("window: an event can't be told", "event", "family", "error", err)
		return fmt.Errorf("family: %w", err)
	}
	if bytes.Equal(body, p.told) {
		return p.tick()
	}
	p.told = body
	return p.send("family", json.RawMessage(body))
}

// look looks at the parent.
func (p *parentStream) look() (family view.Family, known bool, err error) {
	defer p.window.recovered("the family of "+p.target.String(), &err)
	family, known = p.window.source.Family(p.target.operator, p.target.parent)
	return family, known, nil
}

// explainAll explains the parent whenever it has changed, and not too often, until ctx ends or the client
// can't be told. What couldn't be explained is tried again.
func (p *parentStream) explainAll(ctx context.Context, changed <-chan explain.Process) {
	var known explain.Process
	var again <-chan time.Time // nil: the last explanation was sent
	for {
		select {
		case <-ctx.Done():
			return
		case known = <-changed:
		case <-again:
		}
		explained, err := p.explainOnce(ctx, known)
		if again = nil; !explained {
			again = time.After(explainAgain)
		}
		if err != nil || !pause(ctx, explainEvery) {
			return
		}
	}
}

// explainOnce sends an explanation, or why there is none. An error says that the client can't be told.
func (p *parentStream) explainOnce(ctx context.Context, known explain.Process) (explained bool, err error) {
	select {
	case p.window.explain <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	explanation, err := p.explanation(ctx, known)
	<-p.window.explain
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, p.send("problem", problem{err.Error()})
	}
	return true, p.send("explanation", explanation)
}

// explanation asks the source.
func (p *parentStream) explanation(ctx context.Context, known explain.Process) (out explain.Explanation, err error) {
	defer p.window.recovered("the explanation of "+p.target.String(), &err)
	return p.window.source.Explain(ctx, p.target.operator, p.target.parent, known)
}
