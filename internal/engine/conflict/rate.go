package conflict

import "time"

const (
	freeWrites     = 30 // of the children of one type, or of the status, within the window
	writesPerChild = 3  // besides, for each desired child
	// So many times as many may be of children, and of a status, whatever has caused them.
	childrenFactor = 10
	statusFactor   = 40
)

// A rate counts the writes of the children of one type, or of the status.
type rate struct {
	key         Key
	calm, all   buckets // those that no client has set off since the last edit, and all
	least, most int     // children that were desired meanwhile
	factor      int     // so many times as many may be of all
}

// rate counts a write among those of its type, and those of intruders.
func (p *parent) rate(now time.Time, w *Write) *Loop {
	key := w.rated()
	r := p.rateOf(key)
	r.add(now, w)
	over := r.over(now, 0)
	if key == w.Key {
		if h := p.objects[key]; over && h.count == 0 {
			return h.begin(key, Pace)
		}
		return nil
	}
	if !over && !w.Intruder && p.objects[key] == nil {
		return nil
	}
	h := p.history(now, key)
	again := h.last.Equal(now) // several of a reconciliation count as one
	h.note(now, w.Fields)
	if w.Intruder && !again {
		h.repeats = lately(append(h.repeats, now), now, limit)
	}
	switch {
	case h.count > 0 && again:
		return nil
	case h.count > 0:
		return h.goOn(key)
	case len(h.repeats) == limit:
		return h.begin(key, Backoff)
	case over:
		return h.begin(key, Pace)
	}
	return nil
}

func (p *parent) rateOf(key Key) *rate {
	for _, r := range p.rates {
		if r.key == key {
			return r
		}
	}
	r := &rate{key: key, factor: childrenFactor}
	p.rates = append(p.rates, r)
	return r
}

func (r *rate) add(now time.Time, w *Write) {
	if w.Kind == Status {
		r.factor = statusFactor
	}
	if !w.Excused && (!w.Foreign || w.Kind != Update) {
		if r.calm.add(now) == 1 {
			r.least = w.Desired
		}
	}
	if r.all.add(now) == 1 {
		r.most = w.Desired
	}
	r.least, r.most = min(r.least, w.Desired), max(r.most, w.Desired)
}

// over reports whether so many more writes are too many.
func (r *rate) over(now time.Time, more int) bool {
	return r.calm.sum(now)+more > freeWrites+writesPerChild*r.least ||
		r.all.sum(now)+more > r.factor*(freeWrites+writesPerChild*r.most)
}

// bucket is the precision of buckets.
const bucket = 10 * time.Second

// buckets count what was within the window.
type buckets struct {
	newest int64 // the number of the bucket that was counted in last
	counts [window / bucket]int
}

// sum returns the count at a time. No earlier time may follow.
func (b *buckets) sum(now time.Time) (n int) {
	at := now.Unix() / int64(bucket/time.Second)
	if at-b.newest > int64(len(b.counts)) {
		*b = buckets{newest: at}
	}
	for ; b.newest < at; b.newest++ {
		b.counts[(b.newest+1)%int64(len(b.counts))] = 0
	}
	for _, one := range b.counts {
		n += one
	}
	return n
}

// add counts one more, and returns the count.
func (b *buckets) add(now time.Time) int {
	n := b.sum(now)
	b.counts[b.newest%int64(len(b.counts))]++
	return n + 1
}
