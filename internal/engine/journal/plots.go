package journal

import (
	"math"
	"time"
)

const (
	step  = 10 * time.Second
	steps = 90 // fifteen minutes
)

// The kinds of writes that are counted apart.
const (
	verbCreate = iota
	verbUpdate
	verbDelete
	verbStatus
	verbOther
	verbs
)

// verbNames returns the names of the kinds of writes.
func verbNames() [verbs]string { return [verbs]string{"create", "update", "delete", "status", "other"} }

// kindOf returns the kind of a verb.
func kindOf(verb string) int {
	switch verb {
	case "create":
		return verbCreate
	case "update", "apply", "recreate":
		return verbUpdate
	case "delete":
		return verbDelete
	case "update status":
		return verbStatus
	}
	return verbOther
}

// plots count what was done, a bucket for each step of time.
type plots struct{ buckets [steps]bucket }

// A bucket counts what was done in one step. It belongs to the step with this number since 1970.
type bucket struct {
	number                int64
	passes, errors, queue int
	writes                [verbs]int
	latencies             histogram
}

// note counts a pass that has ended now.
func (p *plots) note(now time.Time, e *Entry) {
	b := p.at(now)
	b.passes++
	if e.Err != nil {
		b.errors++
	}
	b.queue = max(b.queue, e.Queue)
	for i := range e.Writes {
		if e.Writes[i].Result == Written || e.Writes[i].Result == Redundant {
			b.writes[kindOf(e.Writes[i].Verb)]++
		}
	}
	b.writes[verbOther] += e.MoreWrites
	if !e.Event.IsZero() && !e.FirstWrite.IsZero() {
		b.latencies.add(e.FirstWrite.Sub(e.Event))
	}
}

// at returns the bucket of a time, empty if it is the first of its step.
func (p *plots) at(now time.Time) *bucket {
	number := now.UnixNano() / int64(step)
	b := &p.buckets[number%steps]
	if b.number != number {
		*b = bucket{number: number}
	}
	return b
}

// read returns the counts of all steps up to now.
func (p *plots) read(now time.Time) Plots {
	last := now.UnixNano() / int64(step)
	out := Plots{
		StepSeconds: int(step / time.Second), Until: time.Unix(0, (last+1)*int64(step)).UTC(),
		Passes: make([]int, steps), Errors: make([]int, steps), Queue: make([]int, steps), P50: make([]float64, steps), P95: make([]float64, steps),
		Writes: map[string][]int{},
	}
	names := verbNames()
	for _, name := range names {
		out.Writes[name] = make([]int, steps)
	}
	for i := range steps {
		number := last - int64(steps-1-i)
		b := &p.buckets[number%steps]
		if b.number != number {
			continue
		}
		out.Passes[i], out.Errors[i], out.Queue[i] = b.passes, b.errors, b.queue
		for v, name := range names {
			out.Writes[name][i] = b.writes[v]
		}
		out.P50[i], out.P95[i] = b.latencies.percentile(50), b.latencies.percentile(95)
	}
	return out
}

// A histogram counts durations in classes from one millisecond to a minute, each of which ends at
// the root of two times its beginning.
type histogram struct{ counts [34]uint32 }

func (h *histogram) add(d time.Duration) {
	class := 0
	if ms := millis(d); ms > 1 {
		class = min(int(math.Ceil(2*math.Log2(ms))), len(h.counts)-1)
	}
	h.counts[class]++
}

// percentile returns the upper end, in milliseconds, of the class in which so many percent of the durations
// have been counted; 0 if there are none.
func (h *histogram) percentile(percent uint32) float64 {
	all := uint32(0)
	for _, n := range h.counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	seen := uint32(0)
	for class, n := range h.counts {
		if seen += n; n > 0 && seen*100 >= all*percent {
			return math.Round(10*math.Pow(2, float64(class)/2)) / 10
		}
	}
	return 0
}
