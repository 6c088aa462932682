package conflict

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

const (
	window     = time.Minute
	limit      = 5 // repeats within the window that are a loop
	lastStates = 4 // of an object, one of which a repeat gives it again
	newStates  = 3 // within the window that ask for a proof
	// repeatsByOthers is how many flip-flops count as one if other clients have set the reconciliations off.
	repeatsByOthers = 3
	maxRepeated     = 60 // follow-ups that no client has asked for: see Repeated
)

// Gone is the state of an object that was deleted.
var Gone = jsonvalue.Sum("gone") //nolint:gochecknoglobals // a constant

// A Key names an object that the reconciliations of a parent write: a child, or the parent itself with its status. Without
// a name it stands for all children of the type.
type Key struct {
	Parent types.UID
	Type   resource.Type
	Object types.NamespacedName
}

// ofType returns the key of all children of the type.
func (k Key) ofType() Key { return Key{Parent: k.Parent, Type: k.Type} }

// A Field is one field of a write, with its value before and after as text: the caller shortens it, and hides that of a
// Secret. "" means that the field had no value.
type Field struct {
	Path     string
	From, To string
}

// A Loop is an object that is written over and over.
type Loop struct {
	Key    Key
	Path   string   // the field that most of the writes had in common; "": none named a field
	Values []string // of this field, before and after the writes, in their order, at most 5
	Writes int      // so far
}

// A Kind is what a write does.
type Kind int

// The kinds.
const (
	Update Kind = iota // of a child
	Create
	Delete
	Status // an update of the parent's status
)

// A Write is a write that has changed an object.
type Write struct {
	Key
	Kind    Kind
	State   jsonvalue.Digest // that it gives the object
	Fields  []Field
	Desired int // children of this type; of a status, children of all types
	// Foreign: another client has set the reconciliation off.
	Foreign bool
	// Excused: the write has a cause that makes new states no news. The handler has asked for the reconciliation by
	// Resync, or a status follows from the progress of children.
	Excused  bool
	Restores bool // it undoes what another client has changed
	Replaces bool // it has inherited the history of one that has vanished
	// Intruder: it deletes a child that another client has made, perhaps under another name each time.
	Intruder bool
}

// rated returns whose writes are counted together with this one.
func (w *Write) rated() Key {
	if w.Kind == Status {
		return w.Key
	}
	return w.ofType()
}

// A Verdict is what a write means.
type Verdict struct {
	Repeats bool  // the object had this state within the window
	Loop    *Loop // a loop begins, or goes on for another five writes
	Fight   *Loop // a field was restored for the 5th, 10th, 20th … time
}

// A Throttle is how a parent is slowed down.
type Throttle int

// The throttles.
const (
	None Throttle = iota
	Pace          // of a rate: one reconciliation in two seconds
	Backoff
)

// A Detector finds conflict loops. Its methods may be called concurrently.
type Detector struct {
	mu struct {
		sync.Mutex
		parents map[types.UID]*parent
		swept   time.Time // when what is over was last dropped
	}
}

// A parent is what is remembered of the writes of one parent.
type parent struct {
	objects map[Key]*history
	rates   []*rate          // of few keys: the types, the status
	fights  []*fight         // maxFights at most
	unclear map[Key]struct{} // objects of which a proof is due
	proved  time.Time        // when a proof was last due
}

// New returns a Detector that has seen nothing.
func New() *Detector {
	d := &Detector{}
	d.mu.parents = map[types.UID]*parent{}
	return d
}

// Forgive forgets the states of a parent's objects, because another client has edited the parent or, if it is not edited, has
// changed related objects. A status that follows from these is excused, so the rate of the others stays. An edit also ends the
// throttle until the next write.
func (d *Detector) Forgive(uid types.UID, edited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.mu.parents[uid]
	if p == nil {
		return
	}
	for _, h := range p.objects {
		h.forgive(edited)
	}
	for _, r := range p.rates {
		if edited || r.factor != statusFactor {
			r.calm = buckets{}
		}
	}
}

// Wrote counts a write. All writes of a reconciliation have the same time.
func (d *Detector) Wrote(now time.Time, w Write) (v Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	p := d.parentLocked(w.Parent)
	h := p.history(now, w.Key)
	var prove bool
	v.Repeats, v.Loop, prove = h.wrote(now, &w)
	if prove && (len(p.unclear) > 0 || now.Sub(p.proved) > window) {
		if p.unclear == nil {
			p.unclear = map[Key]struct{}{}
		}
		p.unclear[w.Key], p.proved = struct{}{}, now
	}
	if w.Restores {
		v.Fight = p.restored(&w)
	}
	if w.Excused && w.Kind != Status {
		return v
	}
	if found := p.rate(now, &w); v.Loop == nil {
		v.Loop = found
	}
	return v
}

// Began notes the first half of a write that counts with its second one, such as the delete of a recreation. It
// reports whether the state that follows repeats.
func (d *Detector) Began(now time.Time, w Write) (repeats bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.parentLocked(w.Parent).history(now, w.Key)
	h.note(now, w.Fields)
	return h.had(now, w.State)
}

// Vanished returns the objects of a parent that were written within the window, and are gone though the engine has not
// deleted them, by type. there reports whether a child is there, or desired. A new object of the type takes the place of
// one of them. Those with the most repeats come first.
func (d *Detector) Vanished(now time.Time, uid types.UID, there func(Key) bool) map[resource.Type][]Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	vanished := map[resource.Type][]Key{}
	p := d.mu.parents[uid]
	if p == nil {
		return vanished
	}
	for key, h := range p.objects {
		if key.Object.Name != "" && h.lives(now) && !there(key) {
			vanished[key.Type] = append(vanished[key.Type], key)
		}
	}
	for _, keys := range vanished {
		slices.SortFunc(keys, func(a, b Key) int {
			return cmp.Or(p.objects[b].repeated()-p.objects[a].repeated(), strings.Compare(a.Object.String(), b.Object.String()))
		})
	}
	return vanished
}

// Inherit gives an object the history of one that has vanished.
func (d *Detector) Inherit(key, vanished Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.parentLocked(key.Parent)
	if h := p.objects[vanished]; h != nil {
		delete(p.objects, vanished)
		p.objects[key] = h
	}
}

// Unclear returns the objects that got new states though no client has changed anything, once: a proof is due. The caller calls
// the handler twice for the same snapshot, before it writes anything, and tells Proved if the responses differ.
func (d *Detector) Unclear(uid types.UID) map[Key]struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.mu.parents[uid]
	if p == nil || len(p.unclear) == 0 {
		return nil
	}
	unclear := p.unclear
	p.unclear = nil
	return unclear
}

// Proved notes that the handler returns another state of an object in each call, for the same snapshot. It returns the
// loop, unless it was known.
func (d *Detector) Proved(now time.Time, key Key) *Loop {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.parentLocked(key.Parent).history(now, key)
	if h.count > 0 {
		return nil
	}
	return h.begin(key, Backoff)
}

// Repeated counts a follow-up that no client has asked for and that gave no child a new state, of those beyond the scheduler's
// limit. So many of them are a loop, whose cause no other rule has found.
func (d *Detector) Repeated(now time.Time, key Key, did []Field) *Loop {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	p := d.parentLocked(key.Parent)
	h := p.history(now, key)
	h.note(now, did)
	if h.count > 0 {
		return h.goOn(key)
	}
	r := p.rateOf(key)
	if r.calm.add(now) < maxRepeated {
		return nil
	}
	return h.begin(key, Backoff)
}

// Throttle returns how a parent is slowed down: one of its objects is in a loop, and was written within the window.
func (d *Detector) Throttle(now time.Time, uid types.UID) (t Throttle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.mu.parents[uid]; p != nil {
		for _, h := range p.objects {
			if h.active(now) {
				t = max(t, h.throttle)
			}
		}
	}
	return t
}

// Current returns the loop for which Throttle slows the parent down, of several the one with the most writes; nil: there is
// none.
func (d *Detector) Current(now time.Time, uid types.UID) (found *Loop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.mu.parents[uid]; p != nil {
		for key, h := range p.objects {
			if h.active(now) && (found == nil || h.count > found.Writes) {
				found = h.loop(key)
			}
		}
	}
	return found
}

// Near reports whether so many more repeats of an object of the parent would be a loop.
func (d *Detector) Near(now time.Time, uid types.UID, repeats int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.mu.parents[uid]
	if p == nil {
		return false
	}
	for _, h := range p.objects {
		if !h.expired(now) && h.near(now, repeats) {
			return true
		}
	}
	for _, r := range p.rates {
		if r.over(now, repeats) {
			return true
		}
	}
	return false
}

// Lasts reports whether an object of the parent is in a loop that has not ended, even if it throttles no more.
func (d *Detector) Lasts(now time.Time, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.mu.parents[uid]; p != nil {
		for _, h := range p.objects {
			if h.count > 0 && !h.expired(now) {
				return true
			}
		}
	}
	return false
}

// Loops reports whether an object is in a loop that has not ended.
func (d *Detector) Loops(now time.Time, key Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.mu.parents[key.Parent]
	if p == nil {
		return false
	}
	h := p.objects[key]
	return h != nil && h.count > 0 && !h.expired(now)
}

// Forget drops what is remembered of a parent.
func (d *Detector) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.parents, uid)
}

// Len returns of how many parents something is remembered.
func (d *Detector) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.parents)
}

func (d *Detector) parentLocked(uid types.UID) *parent {
	p := d.mu.parents[uid]
	if p == nil {
		p = &parent{objects: map[Key]*history{}}
		d.mu.parents[uid] = p
	}
	return p
}

// history returns the history of an object, a new one if there is none or it is over.
func (p *parent) history(now time.Time, key Key) *history {
	h := p.objects[key]
	if h == nil || h.expired(now) {
		h = &history{}
		p.objects[key] = h
	}
	return h
}

// sweepLocked drops what is over, at most once per window. Only writes make the memory grow.
func (d *Detector) sweepLocked(now time.Time) {
	if now.Sub(d.mu.swept) < window {
		return
	}
	d.mu.swept = now
	for uid, p := range d.mu.parents {
		for key, h := range p.objects {
			if h.expired(now) {
				delete(p.objects, key)
			}
		}
		p.rates = slices.DeleteFunc(p.rates, func(r *rate) bool { return r.all.sum(now)+r.calm.sum(now) == 0 })
		if len(p.objects)+len(p.rates)+len(p.fights) == 0 {
			delete(d.mu.parents, uid)
		}
	}
}
