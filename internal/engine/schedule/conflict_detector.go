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

	// answersPerWrite is how many writes that a child's own answer to the one
	// before prompted are as suspicious as one that nothing did: a rollout in
	// steps that the child acknowledges at once looks like a loop until it ends.
	answersPerWrite = 4

	maxLoopFields = 16 // remembered of each write
	maxLoopValues = 5  // named in a conflictLoop
)

// A LoopKey is an object that a parent's passes write: a child, or the parent
// itself for its status.
type LoopKey struct {
	Parent types.UID
	Type   resource.Type
	Object types.NamespacedName
}

// A LoopWrite is one field of a write: the value it had and the value it was
// given, printable, without secrets, at most 100 characters each; empty if there
// was none.
type LoopWrite struct {
	Path     string
	From, To string
}

// A ConflictLoop says what is written over and over.
type ConflictLoop struct {
	Key    LoopKey
	Path   string   // the field that most of the writes had in common; empty if none named a field
	Values []string // the values it alternated between, in the order seen, at most 5
	Writes int      // how many suspicious writes the loop has had so far
}

// A ConflictDetector finds conflict loops: objects that get a number of suspicious
// writes within a time window. Which writes are suspicious its caller decides:
// those that restore a value someone else changed, and those whose desired
// value changed though neither the parent's spec nor any child did.
//
// A loop lasts while writes follow each other, also at the slowing pace of a
// throttled parent: until a pause of a window and three times the pause before
// it. After that, it takes as many writes as at first to find it again.
//
// It keeps a limited number of writes per object, and objects only as long as
// that. Its methods may be called concurrently; time is what they are given.
type ConflictDetector struct {
	limit  int
	window time.Duration

	mu struct {
		sync.Mutex
		parents map[types.UID]map[LoopKey]*loopHistory
		swept   time.Time
	}
}

// A loopHistory is what a conflictDetector remembers of one object.
type loopHistory struct {
	writes   []loopEntry   // the newest, at most limit
	answered int           // writes that an answer prompted, modulo answersPerWrite
	last     time.Time     // of either
	gap      time.Duration // between the last two
	count    int           // since the loop began; 0: no loop
}

type loopEntry struct {
	at     time.Time
	fields []LoopWrite
}

// NewConflictDetector returns a detector that calls limit suspicious writes within
// window a loop. Zero values mean 5 writes and a minute.
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

// Wrote counts a suspicious write of the fields w. It returns the loop when the
// write is the limit-th within the window, and as a reminder at every limit-th
// one after it while the loop lasts; else nil. Fields beyond the first 16 are
// not remembered.
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
	h.last = now
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

// Answered counts a write that was prompted by nothing but the object's own
// answer to the one before, and says whether to count it as suspicious: every
// fourth is, and in a loop each.
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

// Active reports whether an object of the parent is in a loop and had a
// suspicious write within the last window. Asked after a pass, it says whether
// to throttle the parent: no longer once a pass that was throttled for more
// than the window found nothing to write.
func (d *ConflictDetector) Active(now time.Time, parent types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.mu.parents[parent] {
		if h.count > 0 && now.Sub(h.last) <= d.window {
			return true
		}
	}
	return false
}

// Lasts says whether the object is in a loop that hasn't ended.
func (d *ConflictDetector) Lasts(now time.Time, key LoopKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.mu.parents[key.Parent][key]
	return h != nil && h.count > 0 && !d.expired(now, h)
}

// Forget drops what is known of the objects of a parent.
func (d *ConflictDetector) Forget(parent types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.parents, parent)
}

// Len returns of how many parents something is known.
func (d *ConflictDetector) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.parents)
}

// historyLocked returns the object's history, a new one if it has none that
// still counts.
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

// sweepLocked drops expired histories, once per window: writes are what makes
// memory grow, so that is often enough.
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

func (d *ConflictDetector) expired(now time.Time, h *loopHistory) bool {
	keep := d.window
	if h.count > 0 {
		keep += 3 * h.gap // a throttled pass waits up to three times as long as the one before
	}
	return now.Sub(h.last) > keep
}

// culprit returns the path that most of the writes had in common, the first
// one of several, and the distinct values it had.
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
