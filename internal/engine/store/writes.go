package store

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Request is a request to the API server that may change an object.
type Request struct {
	Ref     object.Ref
	Parent  types.UID // the parent whose reconciliation sends it; "": none
	Deletes types.UID // the object that it deletes; "": it is no delete
	// Guarded: the API server rejects it if the object has another resourceVersion than the sender knows.
	Guarded bool
}

// A Response is the API server's response to a request that it has carried out.
type Response struct {
	Live *resource.Resource // the object; of a delete, as it waits for its finalizers; nil: it is gone
	// Unwatched: no watch of this operator delivers Live, because of its labels.
	Unwatched bool
}

// A Write is an open request, from Begin to End.
//
// Its states of the object come by the watch and in the response, in any order. The store accepts them as
// ever. But it holds back the triggers for the parent that has sent the request: the response tells
// which state was its own. So a reconciliation never triggers another one by its own writes, and the
// states of other clients trigger one. Other parents are triggered at once.
type Write struct {
	Request
	store  *Store
	before *resource.Resource // the state held at Begin; nil: none
	held   []heldTrigger
	missed types.UID // of a delete: the owner that misses the object if the delete fails, because it is gone
}

// A heldTrigger is a state of the object that would have triggered a reconciliation of the parent.
type heldTrigger struct {
	uid     types.UID
	version string
	edit    bool // the parent is the object, and the state is an edit
}

// Begin opens a request that is about to be sent. The caller must call End once.
func (s *Store) Begin(r Request) *Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &Write{Request: r, store: s, before: s.mu.objects[r.Ref.Type][r.Ref.Key]}
	s.mu.open[r.Ref] = append(s.mu.open[r.Ref], w)
	return w
}

// End closes the write, and stores the response. nil means that the request failed or that its outcome is
// unknown. The Change names the other parents that the response concerns, and the sender if another client
// has changed the object meanwhile. Without a response, each change may be another client's.
func (w *Write) End(r *Response) Change {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(w)
	if r == nil {
		s.missLocked(w.missed)
		return w.release(func(heldTrigger) bool { return true })
	}
	if r.Live == nil || w.ends(r.Live) {
		uid := w.Deletes
		if r.Live != nil {
			uid = r.Live.UID()
		}
		s.deletedLocked(w.Ref, uid)
		return w.release(func(h heldTrigger) bool { return h.uid != uid })
	}
	if held := s.mu.objects[w.Ref.Type][w.Ref.Key]; w.Deletes != "" && held != nil && held.UID() == w.Deletes {
		s.mu.deleting[types.UID(strings.Clone(string(w.Deletes)))] = struct{}{}
	}
	var c Change
	if !r.Unwatched {
		c = s.readLocked(r.Live).without(w.Parent)
	}
	own := !r.Unwatched && (w.before == nil || w.before.ResourceVersion() != r.Live.ResourceVersion())
	c.add(w.between(r.Live))
	c.add(w.release(func(h heldTrigger) bool {
		return !own || h.uid != r.Live.UID() || h.version != r.Live.ResourceVersion()
	}))
	return c
}

// closeLocked takes a write off the open ones.
func (s *Store) closeLocked(w *Write) {
	others := slices.DeleteFunc(s.mu.open[w.Ref], func(other *Write) bool { return other == w })
	if s.mu.open[w.Ref] = others; len(others) == 0 {
		delete(s.mu.open, w.Ref)
	}
}

// ends reports whether a response has the last state of an object that went with its last finalizer. The API
// server has not stored that state: it has the resourceVersion of the one before. A Pod in its grace
// period looks the same, but had no finalizers before.
func (w *Write) ends(live *resource.Resource) bool {
	return live.IsDeleting() && len(live.Finalizers()) == 0 && w.before != nil && len(w.before.Finalizers()) > 0 &&
		(!w.Guarded || w.before.ResourceVersion() == live.ResourceVersion())
}

// between returns what other clients have changed in the parent between Begin and the request. Only a patch of its
// finalizers is not guarded, so whatever else differs was changed by them.
func (w *Write) between(live *resource.Resource) Change {
	before := w.before
	switch {
	case w.Guarded || w.Parent == "" || before == nil || before.UID() != w.Parent || live.UID() != w.Parent:
		return Change{}
	case live.Generation() == 0 && jsonvalue.Equal(exceptFinalizers(before), exceptFinalizers(live)):
		return Change{} // of a type without generations every other change is an edit
	case isEdit(before, live):
		return Change{Edited: []types.UID{w.Parent}}
	}
	for _, path := range [][]string{{"status"}, {"metadata", "ownerReferences"}} { // else, labels, annotations and the generation tell
		was, _ := before.Field(path...)
		if is, _ := live.Field(path...); !jsonvalue.Equal(was, is) {
			return Change{Parents: []types.UID{w.Parent}}
		}
	}
	return Change{}
}

// exceptFinalizers returns an object without what each change of its finalizers changes.
func exceptFinalizers(res *resource.Resource) map[string]any {
	o := res.Unstructured().Object
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "finalizers")
		delete(meta, "resourceVersion")
		delete(meta, "managedFields")
	}
	return o
}

// release returns the trigger for the parent, if one of those held back is another client's.
func (w *Write) release(foreign func(heldTrigger) bool) (c Change) {
	for _, h := range w.held {
		switch {
		case !foreign(h):
		case h.edit:
			return Change{Edited: []types.UID{w.Parent}}
		default:
			c = Change{Parents: []types.UID{w.Parent}}
		}
	}
	return c
}

// holdBackLocked takes those parents out of a change that has the state of an object as res, or its end at this
// version, whose writes of the object are open. They get it from End.
func (s *Store) holdBackLocked(c Change, ref object.Ref, uid types.UID, version string) Change {
	for _, w := range s.mu.open[ref] {
		edit := slices.Contains(c.Edited, w.Parent)
		if w.Parent == "" || !edit && !slices.Contains(c.Parents, w.Parent) {
			continue
		}
		w.held = append(w.held, heldTrigger{uid, version, edit})
		is := func(uid types.UID) bool { return uid == w.Parent }
		c.Parents, c.Edited = slices.DeleteFunc(c.Parents, is), slices.DeleteFunc(c.Edited, is)
	}
	return c
}

// Read stores a state that was read, unless a newer one is held or the object is known to be gone. The Change
// is that of the same watch event, which changes nothing any more.
func (s *Store) Read(res *resource.Resource) Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readLocked(res)
}

func (s *Store) readLocked(res *resource.Resource) Change {
	ref := object.RefOf(res)
	if s.mu.objects[ref.Type][ref.Key] == nil && s.passedLocked(ref, res.ResourceVersion()) {
		return Change{} // the watch has come further, so the object was deleted since
	}
	return s.setAndWakeLocked(res)
}
