package sim

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/apirequest"
	"github.com/roperator/roperator/internal/testing/faults"
)

// plans are the faults that actions have laid out: what the next requests of a class meet.
type plans struct {
	mu struct {
		sync.Mutex
		next   map[string]planned
		repeat map[string]int // by plural: so many frames of a watch arrive twice
	}
}

type planned struct {
	faults.Fault
	count int
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
	p.mu.next, p.mu.repeat = map[string]planned{}, map[string]int{}
}

// meet reads what follows the verb meet: class, outcome, count and how late.
func (p *plans) meet(args []string) {
	count, _ := strconv.Atoi(args[2])
	f := faults.Fault{Outcome: args[1]}
	if f.Outcome == faults.LateBefore || f.Outcome == faults.LateAfter {
		f.Delay, _ = time.ParseDuration(args[3])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next[args[0]] = planned{f, count}
}

func (p *plans) repeat(plural string, frames int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.repeat[plural] = frames
}

// take returns what a request meets, false if nothing is laid out for it.
func (p *plans) take(x *faults.Exchange) (faults.Fault, bool) {
	class := classOf(x.On)
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.mu.next[class]
	if !ok {
		return faults.Fault{}, false
	}
	if next.count--; next.count == 0 {
		delete(p.mu.next, class)
	} else {
		p.mu.next[class] = next
	}
	if _, err := strconv.Atoi(next.Outcome); err == nil && x.Trial {
		next.Outcome = faults.BreakBefore // a dry run that is rejected leaves a child as it is, on purpose
	}
	return next.Fault, true
}

// takeRepeat returns how many frames of a watch are to arrive twice, 0 for none.
func (p *plans) takeRepeat(plural string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.mu.repeat[plural]
	delete(p.mu.repeat, plural)
	return n
}

// classOf returns the class of a request by which faults are laid out, "" for one that meets none.
func classOf(info apirequest.Info) string {
	switch {
	case slices.Contains([]string{"", "leases", "events", "selfsubjectaccessreviews"}, info.Resource.Resource):
		return ""
	case info.Subresource != "":
		return info.Subresource
	}
	return info.Verb
}

// survives returns what a process gets of a response that was on its way when a backup may have been
// restored: connections don't outlive that.
func (w *world) survives(before int64, resp *http.Response, err error) (*http.Response, error) {
	if err == nil && before != w.restores.Load() {
		resp.Body.Close()
		return nil, faults.Broken("connection reset by peer")
	}
	return resp, err
}
