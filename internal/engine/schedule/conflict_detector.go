package schedule

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

const (
	defaultLoopLimit  = 5
	defaultLoopWindow = time.Minute

	// answersPerWrite is how many writes that a child's answer prompted count as
	// one suspicious write: see Answered. A rollout in steps, each of which the
	// child's controller acknowledges at once, looks like a loop until it ends.
	answersPerWrite = 4

	maxLoopFields = 16 // the fields remembered of one write
	maxLoopValues = 5  // the values named in a ConflictLoop
)

// A LoopKey names an object that a parent's passes write: a child, or the parent
// itself when its status is written.
type LoopKey struct {
	Parent types.UID
	Type   resource.Type
	Object types.NamespacedName
}

// A LoopWrite is one field of a write, with the value before and after. The
// values are printed for people: the caller shortens them, and hides those of
// Secrets. An empty text means that the field had no value.
type LoopWrite struct {
	Path     string
	From, To string
}

// A ConflictLoop describes an object that is written over and over.
type ConflictLoop struct {
	Key    LoopKey
	Path   string   // the field that most of the writes had in common; empty if no write named a field
	Values []string // the field's values before and after the writes, in the order seen, at most 5
	Writes int      // how many suspicious writes the loop has had so far
}

// A ConflictDetector finds conflict loops. A loop begins when an object gets a
// number of suspicious writes, the limit, within a time window. The caller decides
// which writes are suspicious: those that restore what someone else changed or
// deleted, and those whose desired value changed though only the operator's own
// writes set off the pass.
//
// A loop lasts while writes follow each other, also at the slowing pace of a
// throttled parent. It ends with a pause longer than the window plus three times
// the pause before. After that, it takes the full number of writes to find the
// loop again.
//
// An object that takes the place of a lost one takes over its history: see
// Replaces. So a loop is found, too, if every object that is created has a new
// name.
//
// The detector remembers at most limit writes of an object, and forgets objects
// whose loop or window is over. Its methods may be called concurrently. It reads
// no clock: the caller passes the time.
type ConflictDetector struct {
	limit  int
	window time.Duration

	mu struct {
		sync.Mutex
		parents map[types.UID]map[LoopKey]*loopHistory // parent UID -> histories of the objects it writes
		swept   time.Time                              // when expired histories were last dropped
	}
}

// A loopHistory is what a ConflictDetector remembers of one object.
type loopHistory struct {
	writes   []loopEntry   // the newest, at most limit
	answered int           // writes that an answer prompted, modulo answersPerWrite
	last     time.Time     // the last write, suspicious or prompted by an answer
	gap      time.Duration // between the last suspicious write and the write before
	count    int           // suspicious writes since the loop began; 0: no loop
	lost     time.Time     // when the object was lost; zero: it wasn't, or has been replaced
	excused  bool          // of a loop: the parent was edited after the last suspicious write
}

type loopEntry struct {
	at     time.Time
	fields []LoopWrite
}

// NewConflictDetector returns a detector for which limit suspicious writes within
// window are a loop. Values of zero or less mean 5 writes and one minute.
func NewConflictDetector(limit int, window time.Duration) *ConflictDetector {
	if limit <= 0 {
		limit = defaultLoopLimit
	}
	if window <= 0 {
		window = defaultLoopWindow
	}
	d := &ConflictDetector{limit: limit, window: window}
	d.mu.parents = map[types.UID]map[LoopKey]*loopHistory{}
	return d
}

// Wrote counts a suspicious write of the fields w. It returns the loop if this
// write begins it, and again at every limit-th write while the loop lasts;
// otherwise nil. It remembers the first 16 of the fields.
func (d *ConflictDetector) Wrote(now time.Time, key LoopKey, w []LoopWrite) (found *ConflictLoop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	h := d.historyLocked(now, key)
	if h.count == 0 {
		h.writes = slices.DeleteFunc(h.writes, func(e loopEntry) bool { return now.Sub(e.at) > d.window })
	}
	if len(h.writes) == d.limit {
		h.writes = slices.Delete(h.writes, 0, 1)
	}
	h.writes = append(h.writes, loopEntry{at: now, fields: slices.Clone(w[:min(len(w), maxLoopFields)])})
	if !h.last.IsZero() {
		h.gap = now.Sub(h.last)
	}
	h.last, h.excused = now, false
	switch {
	case h.count > 0:
		h.count++
	case len(h.writes) == d.limit:
		h.count = d.limit
	}
	if h.count == 0 || h.count%d.limit != 0 {
		return nil
	}
	path, values := h.culprit()
	return &ConflictLoop{Key: key, Path: path, Values: values, Writes: h.count}
}

// Answered counts a write that may be suspicious: only answers to the operator's
// writes have prompted it, or it creates an object that none of this name was
// before. It says whether the caller must count this write as suspicious, with
// Wrote: every fourth such write, and each one during a loop.
func (d *ConflictDetector) Answered(now time.Time, key LoopKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	h := d.historyLocked(now, key)
	if h.count > 0 {
		return true
	}
	h.last = now
	h.answered = (h.answered + 1) % answersPerWrite
	return h.answered == 0
}

// Active says whether an object of the parent is in a loop and had a suspicious
// write within the last window. The caller asks after a pass, and throttles the
// parent if so. The throttling ends with the first pass that finds nothing to
// write, more than a window after the last suspicious write.
func (d *ConflictDetector) Active(now time.Time, parent types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.mu.parents[parent] {
		if h.active(now, d.window) {
			return true
		}
	}
	return false
}

// Current returns the loop for which Active says so, of several the one with the most writes;
// nil if there is none.
func (d *ConflictDetector) Current(now time.Time, parent types.UID) *ConflictLoop {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found *ConflictLoop
	for key, h := range d.mu.parents[parent] {
		if h.active(now, d.window) && (found == nil || h.count > found.Writes) {
			path, values := h.culprit()
			found = &ConflictLoop{Key: key, Path: path, Values: values, Writes: h.count}
		}
	}
	return found
}

// active says whether a loop had a suspicious write within the window, and nobody has edited
// the parent since.
func (h *loopHistory) active(now time.Time, window time.Duration) bool {
	return h.count > 0 && !h.excused && now.Sub(h.last) <= window
}

// Near says whether so many more suspicious writes of an object of the parent, or fewer,
// would have Wrote return a loop.
func (d *ConflictDetector) Near(now time.Time, parent types.UID, writes int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.mu.parents[parent] {
		switch {
		case d.expired(now, h):
		case h.count > 0 && d.limit-h.count%d.limit <= writes:
			return true
		case h.count == 0 && h.recent(now, d.window)+writes >= d.limit:
			return true
		}
	}
	return false
}

// recent returns how many of the remembered writes are no older than the window.
func (h *loopHistory) recent(now time.Time, window time.Duration) (n int) {
	for _, e := range h.writes {
		if now.Sub(e.at) <= window {
			n++
		}
	}
	return n
}

// Lasts says whether an object of the parent is in a loop that hasn't ended, even
// if Active no longer counts it.
func (d *ConflictDetector) Lasts(now time.Time, parent types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.mu.parents[parent] {
		if h.count > 0 && !d.expired(now, h) {
			return true
		}
	}
	return false
}

// Excuse makes the loops of a parent inactive until their next suspicious write.
// The caller excuses a parent that somebody has edited: the edit ends the throttle,
// and the next suspicious write starts it anew.
func (d *ConflictDetector) Excuse(parent types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.mu.parents[parent] {
		h.excused = true
	}
}

// Forget drops the histories of the objects of a parent.
func (d *ConflictDetector) Forget(parent types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.parents, parent)
}

// Len returns how many parents have a history.
func (d *ConflictDetector) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.parents)
}

// historyLocked returns the object's history, a new one if there is none or the
// old one has expired.
func (d *ConflictDetector) historyLocked(now time.Time, key LoopKey) *loopHistory {
	objects := d.mu.parents[key.Parent]
	if objects == nil {
		objects = map[LoopKey]*loopHistory{}
		d.mu.parents[key.Parent] = objects
	}
	h := objects[key]
	if h == nil || d.expired(now, h) {
		h = &loopHistory{}
		objects[key] = h
	}
	return h
}

// sweepLocked drops expired histories, at most once per window. Every write calls
// it, and only writes make the memory grow.
func (d *ConflictDetector) sweepLocked(now time.Time) {
	if now.Sub(d.mu.swept) < d.window {
		return
	}
	d.mu.swept = now
	for parent, objects := range d.mu.parents {
		for key, h := range objects {
			if d.expired(now, h) {
				delete(objects, key)
			}
		}
		if len(objects) == 0 {
			delete(d.mu.parents, parent)
		}
	}
}

// expired says whether the object's window, or its loop, is over.
func (d *ConflictDetector) expired(now time.Time, h *loopHistory) bool {
	keep := d.window
	if h.count > 0 {
		keep += 3 * h.gap // a throttled pass waits up to three times as long as the one before
	}
	last := h.last
	if h.lost.After(last) {
		last = h.lost
	}
	return now.Sub(last) > keep
}

// culprit returns the path that most of the writes had in common, the first of
// several, and the distinct values of that field.
func (h *loopHistory) culprit() (path string, values []string) {
	var fields []LoopWrite
	counts := map[string]int{}
	for _, e := range h.writes {
		fields = append(fields, e.fields...)
	}
	for _, f := range fields {
		counts[f.Path]++
	}
	for _, f := range fields {
		if counts[f.Path] > counts[path] {
			path = f.Path
		}
	}
	for _, f := range fields {
		if f.Path != path {
			continue
		}
		for _, v := range [...]string{f.From, f.To} {
			if v != "" && len(values) < maxLoopValues && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	return path, values
}
