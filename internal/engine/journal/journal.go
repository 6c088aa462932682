package journal

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
)

// Bounds of what is kept.
const (
	// PassesOfParent is how many passes of one parent are kept.
	PassesOfParent = 100
	// WritesOfPass is how many writes of one pass are kept.
	WritesOfPass = 20
	// FieldsOfWrite is how many fields of one write are kept.
	FieldsOfWrite = 8

	maxPasses = 16 << 10 // of an operator
	maxWrites = 32 << 10 // of all its passes together
	maxEvents = 4 << 10  // of an operator
	maxText   = 1 << 10  // of an error or an Event's message, in bytes
)

// An Entry is a pass that is to be kept.
type Entry struct {
	ID         string // of its log lines; may be empty
	Start      time.Time
	Took       time.Duration
	Waited     time.Duration // of the parent for a worker, before
	Trigger    string
	More       int
	Call       string // the handler's method; empty: none was called
	CallTook   time.Duration
	Err        error
	Throttled  bool
	Writes     []WriteEntry // WritesOfPass at most; the journal keeps the slice
	MoreWrites int          // how many were left out
	Event      time.Time    // when the event came that made the parent due; zero: there was none
	FirstWrite time.Time    // when the first write was answered; zero: there was none
	Queue      int          // how many parents wait for a worker
}

// A WriteEntry is a write that is to be kept.
type WriteEntry struct {
	Object     object.Ref
	Verb       string
	Took       time.Duration
	Result     Result
	Err        error    // of Failed; shows no value of a Secret
	Fields     []string // the paths of those that differed, FieldsOfWrite at most; the journal keeps the slice
	MoreFields int      // how many were left out
}

// A Journal keeps what an operator did lately. Its methods may be called concurrently, and on a
// nil *Journal, too, which keeps nothing.
type Journal struct {
	mu struct {
		sync.Mutex
		records  []record // grows up to maxPasses; unused ones are in the list free
		free     list
		kept     list // of all records in use, by age
		families map[types.UID]*family
		number   uint64 // of the newest pass
		writes   int    // of all records
		events   ring
		plots    plots
	}
}

// A record is a pass that is kept.
type record struct {
	Entry
	number  uint64
	err     string
	owner   *family
	uid     types.UID
	byAge   links // in kept, or in free
	ofOwner links // in owner.passes
}

// A family has the passes of one parent.
type family struct{ passes list }

// New returns an empty journal.
func New() *Journal {
	j := &Journal{}
	j.mu.families = map[types.UID]*family{}
	j.mu.free, j.mu.kept = emptyList(), emptyList()
	return j
}

// Note keeps a pass over a parent.
func (j *Journal) Note(parent types.UID, e Entry) {
	if j == nil {
		return
	}
	now := e.Start.Add(e.Took)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.plots.note(now, &e)
	f := j.mu.families[parent]
	if f == nil {
		f = &family{passes: emptyList()}
		j.mu.families[parent] = f
	}
	if f.passes.n >= PassesOfParent {
		j.dropLocked(f.passes.first)
	}
	j.makeRoomLocked(len(e.Writes))
	j.mu.families[parent] = f // it may have lost its last pass to the new one
	at := j.takeLocked()
	j.mu.number++
	r := &j.mu.records[at]
	*r = record{Entry: e, number: j.mu.number, err: textOf(e.Err), owner: f, uid: parent, byAge: r.byAge, ofOwner: r.ofOwner}
	r.Err = nil // which may hold on to much
	for i := range r.Writes {
		r.Writes[i].Err = shortened(r.Writes[i].Err)
	}
	j.mu.writes += len(r.Writes)
	j.mu.kept.push(at, j.byAge)
	f.passes.push(at, j.ofOwner)
}

// Forget drops what is kept of a parent that is gone.
func (j *Journal) Forget(parent types.UID) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.mu.families[parent]
	for f != nil && f.passes.n > 0 {
		j.dropLocked(f.passes.first)
	}
	delete(j.mu.families, parent)
	j.mu.events.forget(parent)
}

// makeRoomLocked drops the oldest passes until there is room for one more with so many writes.
func (j *Journal) makeRoomLocked(writes int) {
	for j.mu.kept.n > 0 && (j.mu.kept.n >= maxPasses || j.mu.writes+writes > maxWrites) {
		j.dropLocked(j.mu.kept.first)
	}
}

// takeLocked returns a record that isn't in use, and in no list.
func (j *Journal) takeLocked() int32 {
	if j.mu.free.n == 0 {
		j.mu.records = append(j.mu.records, record{})
		return int32(len(j.mu.records) - 1)
	}
	at := j.mu.free.first
	j.mu.free.remove(at, j.byAge)
	return at
}

// dropLocked drops a pass, and its parent's family with the last one.
func (j *Journal) dropLocked(at int32) {
	r := &j.mu.records[at]
	j.mu.kept.remove(at, j.byAge)
	r.owner.passes.remove(at, j.ofOwner)
	if r.owner.passes.n == 0 {
		delete(j.mu.families, r.uid)
	}
	j.mu.writes -= len(r.Writes)
	*r = record{}
	j.mu.free.push(at, j.byAge)
}

// byAge returns the links of a record in the lists of all records.
func (j *Journal) byAge(at int32) *links { return &j.mu.records[at].byAge }

// ofOwner returns the links of a record in its parent's list.
func (j *Journal) ofOwner(at int32) *links { return &j.mu.records[at].ofOwner }
