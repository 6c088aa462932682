package window

import (
	"context"
	"net/http"
	"time"

	"github.com/roperator/roperator/internal/engine/view"
)

// progressEvery is how often a client is told how far a plan is, at most.
const progressEvery = 200 * time.Millisecond

// servePlan streams a plan of all parents. There is one at a time.
func (w *Window) servePlan(rw http.ResponseWriter, req *http.Request) {
	t, ok := w.target(rw, req, false)
	if !ok {
		return
	}
	ctx, end, ok := w.begin(rw, req)
	if !ok {
		return
	}
	defer end()
	if req.Method == http.MethodHead {
		return
	}
	select {
	case w.plan <- struct{}{}:
		defer func() { <-w.plan }()
	default:
		unavailable(rw, "a plan is under way; wait for its end")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &planStream{stream: newStream(rw), giveUp: cancel}
	if p.send("begin", begun{t.operator}) != nil {
		return
	}
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
	defer w.recovered("plan", &err)
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
