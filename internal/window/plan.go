package window

import (
	"context"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/engine/view"
)

// progressEvery is how often a client is told how far a plan is, at most.
const progressEvery = 200 * time.Millisecond

// servePlan streams a plan of all parents. There is one at a time.
func (w *Window) servePlan(ctx context.Context, a *answer, t target) {
	select {
	case w.plan <- struct{}{}:
		defer func() { <-w.plan }()
	default:
		unavailable(a.rw, "a plan is under way; wait for its end")
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &planStream{stream: w.stream(a), giveUp: cancel}
	if p.send("begin", begun{t.operator}) != nil {
		return
	}
	wg.Go(func() { // ends with ctx
		defer cancel() // the client can't be told anything any more
		every(ctx, lookEvery, p.tick)
	})
	err := w.planAll(ctx, t.operator, p.tell)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		_ = p.send("problem", problem{err.Error()}) // a client that is gone needs no answer
	default:
		_ = p.send("end", p.sum)
	}
}

// planAll asks the source.
func (w *Window) planAll(ctx context.Context, operator string, found func(view.Planned, int)) (err error) {
	defer w.recovered("the plan of "+operator, &err)
	return w.source.Plan(ctx, operator, found)
}

// A planStream is one client's. The source calls it for one parent at a time.
type planStream struct {
	*stream
	giveUp func() // ends the plan

	done int
	sum  planSum
	last time.Time // when progress was told last
}

// A planSum is the data of the event end.
type planSum struct {
	Parents int `json:"parents"`
	Changes int `json:"changes"`
	Errors  int `json:"errors"`
}

// planProgress is the data of the event progress.
type planProgress struct {
	Done    int `json:"done"`
	Parents int `json:"parents"`
}

// tell sends a parent that would change or fail, and how far the plan is.
func (p *planStream) tell(planned view.Planned, parents int) {
	p.done++
	p.sum.Parents = parents
	p.sum.Changes += len(planned.Changes)
	if planned.Error != "" {
		p.sum.Errors++
	}
	var err error
	if len(planned.Changes) > 0 || planned.Error != "" {
		err = p.send("parent", planned)
	}
	if now := time.Now(); err == nil && (now.Sub(p.last) >= progressEvery || p.done == parents) {
		p.last = now
		err = p.send("progress", planProgress{p.done, parents})
	}
	if err != nil {
		p.giveUp()
	}
}
