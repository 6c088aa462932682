package histories

import (
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/roperator/roperator/internal/apirequest"
	"github.com/roperator/roperator/internal/testing/faults"
)

// plans say what the next requests of each class meet.
type plans struct {
	mu struct {
		sync.Mutex
		next  map[string]planned
		twice map[string]int // by plural: so many frames of a watch are told again
	}
}

type planned struct {
	outcome string
	count   int
}

func newPlans() *plans {
	p := &plans{}
	p.heal()
	return p
}

// heal ends the faults.
func (p *plans) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next, p.mu.twice = map[string]planned{}, map[string]int{}
}

func (p *plans) meet(class, outcome string, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next[class] = planned{outcome, count}
}

func (p *plans) repeat(plural string, frames int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.twice[plural] = frames
}

// take returns what a request of this class meets, "" for nothing.
func (p *plans) take(class string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.mu.next[class]
	if !ok {
		return ""
	}
	if next.count--; next.count == 0 {
		delete(p.mu.next, class)
	} else {
		p.mu.next[class] = next
	}
	return next.outcome
}

// takeRepeat returns how many frames of a watch are to be told again, 0 for none.
func (p *plans) takeRepeat(plural string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.mu.twice[plural]
	delete(p.mu.twice, plural)
	return n
}

// A link is the connection of one process to the API server.
type link struct {
	*faults.Process
	world   *world
	carrier *faults.Link
}

// connect returns the connection of a process.
func (w *world) connect(p *faults.Process) *link {
	return &link{Process: p, world: w, carrier: &faults.Link{
		Process: p, Dice: faults.Play(nil),
		Serve:       func(x *faults.Exchange, _ faults.Fault) (*http.Response, error) { return w.server.RoundTrip(x.Request) },
		Unreachable: func(*faults.Exchange) bool { return w.isDown() },
		Frame: func(x *faults.Exchange, _ []byte) faults.Fault {
			if n := w.plans.takeRepeat(x.On.Resource.Resource); n > 0 {
				return faults.Fault{Outcome: faults.Again(n)}
			}
			return faults.Fault{}
		},
	}}
}

// RoundTrip is http.RoundTripper's.
func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	x, err := faults.Read(req)
	if err != nil {
		return nil, err
	}
	class := classOf(x.On)
	f := faults.Fault{Outcome: l.world.plans.take(class)}
	if _, err := strconv.Atoi(f.Outcome); err == nil && x.Trial {
		f.Outcome = faults.BreakBefore // a dry run that is refused leaves a child as it is, on purpose
	}
	if class != "" && (class != "watch" || f.Outcome != "") {
		l.world.Note("%s: %s %s %s", l.Name, req.Method, req.URL.Path, f.Outcome)
	}
	if f.Outcome == faults.LateBefore || f.Outcome == faults.LateAfter {
		f.Delay = l.world.lateness()
	}
	restores := l.world.restores.Load()
	resp, err := l.carrier.Carry(x, f)
	if err == nil && restores != l.world.restores.Load() {
		resp.Body.Close()
		return nil, faults.Broken("connection reset by peer") // it doesn't outlive the API server
	}
	return resp, err
}

// classOf returns the class of a request by which faults are chosen, "" for one that
// meets none.
func classOf(info apirequest.Info) string {
	switch {
	case slices.Contains([]string{"", "leases", "events", "selfsubjectaccessreviews"}, info.Resource.Resource):
		return ""
	case info.Subresource != "":
		return info.Subresource
	}
	return info.Verb
}
