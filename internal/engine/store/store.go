package store

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Store holds the newest known state of the parents and of the objects that
// carry this operator's labels, with an index from a parent's UID to the
// parent's children. A state enters only if its resourceVersion is newer than
// that of the state held.
//
// Its methods may be called concurrently. The resources that they return are
// immutable.
type Store struct {
	parentType    resource.Type
	parentKind    schema.GroupKind // that of parentType
	trackingLabel string
	mu            struct {
		sync.RWMutex
		objects    map[resource.Type]map[types.NamespacedName]*resource.Resource
		bytes      map[resource.Type]int                     // type -> bytes of JSON of its objects
		parents    map[types.UID]types.NamespacedName        // parent UID -> key
		children   map[types.UID]*siblings                   // parent UID -> its children
		streams    map[Stream]string                         // watch -> the newest resourceVersion it has delivered
		deleted    map[resource.Type]map[types.UID]tombstone // UID -> own delete that no watch has confirmed yet
		undeleted  map[types.UID]struct{}                    // objects held that were there after their delete had succeeded
		floors     map[object.Ref]string                     // object -> resourceVersion at its own delete; no older state enters
		waiting    map[object.Ref]map[types.UID]struct{}     // object -> UIDs of the parents that wait for its end
		awaited    map[types.UID]map[object.Ref]struct{}     // parent UID -> the objects for whose end it waits
		departed   map[types.UID]departed                    // parent UID -> last state of a parent that left the watch
		deleting   map[types.UID]struct{}                    // objects held that this operator has deleted
		open       map[object.Ref][]*Write                   // object -> writes between Begin and End
		lost       map[types.UID]int                         // parent UID -> count of missing children
		unlabelled map[types.UID]map[object.Ref]types.UID    // parent UID -> object that is to be read for it -> its UID
		orphans    map[object.Ref]types.UID                  // object in unlabelled, of which the key is held -> parent UID
		fields     map[types.UID]heldFields                  // child UID -> the fields that the operator owns; nil: of no child that is known

		keepDeparted bool   // see KeepDeparted
		readLost     bool   // see ReadLost
		childrenOnly bool   // see HoldChildrenOnly
		childrenAsOf string // the resourceVersion of the newest list of children; empty: parents were listed since
	}
}

// A Stream is one watch: of a type, in a namespace or (empty) in all.
type Stream struct {
	Type      resource.Type
	Namespace string
	Selected  string // tells two watches of one type and namespace apart; empty in a Store
}

// covers says whether the watch delivers an object with this key.
func (s Stream) covers(key types.NamespacedName) bool {
	return s.Namespace == "" || s.Namespace == key.Namespace
}

// A Change names the parents that a new state concerns, by their UIDs. The zero
// Change concerns no parent.
type Change struct {
	Parents []types.UID // parents that are new or whose status or children changed; one may be named twice
	Edited  []types.UID // parents that someone has edited, deleted or taken out of the watch; none of Parents
	Woken   []types.UID // parents that waited for the end of the object: see Await
	Own     []types.UID // parents of which a related object has ended that was their child, perhaps by an own write
}

// Empty reports whether the change concerns no parent.
func (c Change) Empty() bool { return len(c.Parents)+len(c.Edited)+len(c.Woken)+len(c.Own) == 0 }

// without returns the change for the parents other than the one with this UID. It overwrites c.
func (c Change) without(parent types.UID) Change {
	is := func(uid types.UID) bool { return uid == parent }
	return Change{Parents: slices.DeleteFunc(c.Parents, is), Edited: slices.DeleteFunc(c.Edited, is), Woken: slices.DeleteFunc(c.Woken, is), Own: slices.DeleteFunc(c.Own, is)}
}

func (c *Change) add(other Change) {
	c.Parents = append(c.Parents, other.Parents...)
	c.Edited = append(c.Edited, other.Edited...)
	c.Woken = append(c.Woken, other.Woken...)
	c.Own = append(c.Own, other.Own...)
}

// New returns an empty store for the parents of a type and for their children,
// which name their parent's UID in trackingLabel.
func New(parent resource.Type, trackingLabel string) *Store {
	s := &Store{parentType: parent, parentKind: parent.GroupVersionKind().GroupKind(), trackingLabel: trackingLabel}
	s.mu.objects = map[resource.Type]map[types.NamespacedName]*resource.Resource{}
	s.mu.bytes = map[resource.Type]int{}
	s.mu.parents = map[types.UID]types.NamespacedName{}
	s.mu.children = map[types.UID]*siblings{}
	s.mu.streams = map[Stream]string{}
	s.mu.deleted = map[resource.Type]map[types.UID]tombstone{}
	s.mu.undeleted = map[types.UID]struct{}{}
	s.mu.floors = map[object.Ref]string{}
	s.mu.waiting = map[object.Ref]map[types.UID]struct{}{}
	s.mu.awaited = map[types.UID]map[object.Ref]struct{}{}
	s.mu.departed = map[types.UID]departed{}
	s.mu.deleting = map[types.UID]struct{}{}
	s.mu.open = map[object.Ref][]*Write{}
	s.mu.lost = map[types.UID]int{}
	s.mu.unlabelled = map[types.UID]map[object.Ref]types.UID{}
	s.mu.orphans = map[object.Ref]types.UID{}
	return s
}

// newer says whether resourceVersion a is newer than b. A pair that can't be
// ordered counts as newer, so that with an unusual API server the last state to
// arrive wins.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// Older says whether resourceVersion a is older than b. It returns false for a pair that
// can't be ordered.
func Older(a, b string) bool {
	if b == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// setLocked is the gate: it stores a state that admitLocked has admitted for this owner,
// if the state is newer than the one held, and returns the parents that this concerns.
func (s *Store) setLocked(res *resource.Resource, owner types.UID) Change {
	ref := object.RefOf(res)
	if stone, gone := s.mu.deleted[ref.Type][res.UID()]; gone {
		if newer(res.ResourceVersion(), stone.newest()) { // in case the object isn't gone after all
			stone.dropped, stone.owner = res, owner
			s.mu.deleted[ref.Type][res.UID()] = stone
		}
		return Change{}
	}
	held := s.mu.objects[ref.Type][ref.Key]
	if held != nil && !newer(res.ResourceVersion(), held.ResourceVersion()) && !s.completes(held, res) {
		return Change{}
	}
	if floor, ok := s.mu.floors[ref]; ok && !newer(res.ResourceVersion(), floor) {
		return Change{} // a predecessor of the object that this operator has deleted
	}
	return s.enterLocked(ref, held, res, owner)
}

// enterLocked stores a state that admitLocked has admitted for this owner in the place of
// held, which may be nil, and returns the parents that this concerns.
func (s *Store) enterLocked(ref object.Ref, held, res *resource.Resource, owner types.UID) Change {
	var c Change
	var before types.UID // the owner so far
	if held != nil {
		if held.UID() != res.UID() {
			c = s.removeLocked(ref, held)
		} else {
			s.mu.bytes[ref.Type] -= held.Size()
			before, _ = s.ownerOf(held)
		}
	}
	if s.mu.objects[ref.Type] == nil {
		s.mu.objects[ref.Type] = map[types.NamespacedName]*resource.Resource{}
	}
	s.mu.objects[ref.Type][ref.Key] = res
	delete(s.mu.fields, res.UID())
	s.tidyFieldsLocked()
	s.mu.bytes[ref.Type] += res.Size()
	if ref.Type == s.parentType {
		s.mu.parents[res.UID()] = ref.Key
		delete(s.mu.departed, res.UID())
		c.Parents = append(c.Parents, res.UID())
		return c
	}
	s.forgetOrphanLocked(ref)
	key := s.isKey(res)
	if before != "" && (before != owner || key) {
		before = s.unindexLocked(before, held)
		c.Parents = append(c.Parents, before)
		s.missLocked(before)
	}
	if key {
		s.noteOrphanLocked(res, owner)
	} else {
		s.forgetUnlabelledLocked(owner, ref)
		family := s.indexLocked(owner, res)
		if !slices.Contains(c.Parents, family.uid) {
			c.Parents = append(c.Parents, family.uid)
		}
	}
	return c
}

// removeLocked removes the state held of an object, and returns the parents that
// this concerns. It counts the object as missing unless this operator has
// deleted it.
func (s *Store) removeLocked(ref object.Ref, held *resource.Resource) Change {
	delete(s.mu.objects[ref.Type], ref.Key)
	delete(s.mu.fields, held.UID())
	delete(s.mu.undeleted, held.UID())
	s.tidyFieldsLocked()
	s.mu.bytes[ref.Type] -= held.Size()
	s.forgetOrphanLocked(ref)
	owner, owned := s.ownerOf(held)
	ours := s.goneLocked(ref, held.UID(), owner)
	var c Change
	if ref.Type == s.parentType {
		s.forgetFieldsOfLocked(held.UID())
		delete(s.mu.parents, held.UID())
		delete(s.mu.lost, held.UID())
		s.endWaitsLocked(held.UID(), s.mu.awaited[held.UID()])
		if s.mu.keepDeparted {
			s.mu.departed[held.UID()] = departed{held, false} // and it may come back for its unlabelled objects
		} else {
			s.forgetNamesLocked(held.UID())
		}
		s.shortenChildrenLocked(held.UID())
		c.Edited = append(c.Edited, held.UID())
		return c
	}
	if owned {
		owner = s.unindexLocked(owner, held)
		c.Parents = append(c.Parents, owner)
		if !ours {
			s.missLocked(owner)
		}
		if s.mu.readLost && (!ours || len(held.Finalizers()) > 0) {
			s.noteUnlabelledLocked(owner, ref, held.UID())
		}
	}
	return c
}
