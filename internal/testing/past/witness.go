package past

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A Witness knows what one process has shown. It may be used concurrently.
type Witness struct {
	record *Record
	begun  int // the moment at which the process began

	mu      sync.Mutex
	holders map[Ref]*holders
	// shown has, by what a parent was shown by a reference, the earliest moment at which
	// that was so: nothing that was over by then may follow.
	shown map[types.UID]map[Ref]map[Key]int
}

// holders are the parents that may have a reference.
type holders struct {
	since   int // the moment at which the first of them was about to have it
	parents map[types.UID]struct{}
}

// Witness returns the witness of a process that begins now.
func (r *Record) Witness() *Witness {
	return &Witness{record: r, begun: r.Now(), holders: map[Ref]*holders{}, shown: map[types.UID]map[Ref]map[Key]int{}}
}

// Refers notes that a parent is about to refer to something.
func (w *Witness) Refers(parent types.UID, refs []Ref) {
	now := w.record.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range refs {
		if w.holders[r] == nil {
			w.holders[r] = &holders{now, map[types.UID]struct{}{}}
		}
		w.holders[r].parents[parent] = struct{}{}
	}
	w.dropShownLocked(parent, refs)
}

// dropShownLocked drops what a parent was shown by references that it hasn't any more. If it
// has one again, another watch may tell of it.
func (w *Witness) dropShownLocked(parent types.UID, refs []Ref) {
	maps.DeleteFunc(w.shown[parent], func(r Ref, _ map[Key]int) bool { return !slices.Contains(refs, r) })
}

// Shown says what can't be right when the handler is called for a parent that refers to this,
// and is shown these objects.
func (w *Witness) Shown(parent types.UID, refs []Ref, shown []*resource.Resource) (wrong []string) {
	refs = Sorted(refs)
	objects, restored := w.record.covered(refs)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.letGoLocked(parent, refs)
	there := map[Key]*resource.Resource{}
	for _, res := range shown {
		key := KeyOf(res)
		if there[key] = res; objects[key] == nil {
			wrong = append(wrong, fmt.Sprintf("%s is shown, to which nothing refers", key))
		}
	}
	for key, epochs := range objects {
		to := slices.DeleteFunc(slices.Clone(refs), func(r Ref) bool { return !r.Covers(key) })
		j := judge{w, parent, to, key, epochs, len(to) == 1 && !restored}
		if why := j.judgeLocked(there[key]); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s, referred to by %v, %s", key, to, why))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// letGoLocked notes that a parent refers to nothing but this by now.
func (w *Witness) letGoLocked(parent types.UID, refs []Ref) {
	for r, of := range w.holders {
		if slices.Contains(refs, r) {
			continue
		}
		if delete(of.parents, parent); len(of.parents) == 0 {
			delete(w.holders, r)
		}
	}
	w.dropShownLocked(parent, refs)
}

// A judge knows what can be right of one object that a parent refers to.
type judge struct {
	*Witness

	parent types.UID
	refs   []Ref // of the parent to the object
	key    Key
	epochs []epoch
	onward bool // the parent can't be shown what is older than what it was shown
}

// judgeLocked says why the parent can't be shown this state of the object; a nil res means that
// the object isn't there.
func (j judge) judgeLocked(res *resource.Resource) string {
	switch {
	case slices.ContainsFunc(j.refs, func(r Ref) bool { return j.holders[r] == nil }):
		return "is to be shown to a parent of which the process has never asked what it refers to"
	case res == nil && !slices.ContainsFunc(j.refs, func(r Ref) bool { return !j.wasLocked(r, j.holders[r].since, nil) }):
		return ""
	case res == nil:
		return "isn't shown, though it has been there since the process had the reference, or was shown it"
	case slices.ContainsFunc(j.refs, func(r Ref) bool { return j.wasLocked(r, j.begun, res) }):
		return ""
	}
	return fmt.Sprintf("is shown at resourceVersion %s, which it hasn't had since the process began, or since the parent was shown something newer", res.ResourceVersion())
}

// wasLocked says whether a reference led to this state of the object at some moment, not before
// since. It notes the moment: what follows can't be older.
func (j judge) wasLocked(r Ref, since int, res *resource.Resource) bool {
	if !j.onward {
		_, ok := r.first(j.epochs, since, res)
		return ok
	}
	at, ok := r.first(j.epochs, max(since, j.shown[j.parent][r][j.key]), res)
	if !ok {
		return false
	}
	if j.shown[j.parent] == nil {
		j.shown[j.parent] = map[Ref]map[Key]int{}
	}
	if j.shown[j.parent][r] == nil {
		j.shown[j.parent][r] = map[Key]int{}
	}
	j.shown[j.parent][r][j.key] = at
	return true
}

// first returns the first moment, not before since, at which a reference led to this state of
// an object; nil is to none. It returns false if there is none.
func (r Ref) first(epochs []epoch, since int, res *resource.Resource) (at int, ok bool) {
	for i, e := range epochs {
		over := i+1 < len(epochs) && epochs[i+1].from <= since
		there := e.state != nil && r.matches(e.state.labels)
		if !over && there == (res != nil) && (res == nil || e.state.is(res)) {
			return max(since, e.from), true
		}
	}
	return 0, false
}
