package relate

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/resource"
)

// A source is a watch, and what is held of what it delivers. It is the watch.Mirror of its
// watcher. The fields below Relations are behind its lock.
//
// If the query is for one name or a selector, all that is delivered is held. If it is for
// everything, that is held which parents refer to.
type source struct {
	of      Query
	watcher *watch.Watcher
	run     func() // the watcher, until stop
	stop    context.CancelFunc
	*Relations
	// clusterScoped says that the type has no namespaces. If it is installed anew with some, what is
	// watched are those of all namespaces, until that is found out.
	clusterScoped bool

	objects  map[types.NamespacedName]*resource.Resource
	position string // the resourceVersion up to which everything has been delivered
	synced   bool   // a complete list has arrived
	stale    bool   // not to be used, since nobody has asked for it for a while
	err      error  // why the API server serves no watch; nil: it does, or will, or did once
	asked    uint64 // the number of the newest query when the list was asked for that is under way
	listed   uint64 // the same, for the list that arrived last
	// looked are the queries that are newer than the last list, and have been looked up, with
	// the resourceVersion as of which they were answered.
	looked map[Query]string
	// looking are the lookups that are due or under way.
	looking map[Query]*lookup
	// passed has, while there are lookups, the states that the watch has delivered and that
	// aren't held.
	passed map[types.NamespacedName]passed
	passes uint64 // how many there have been
}

// A passed is a state of an object that was delivered and isn't held: of one that is gone,
// or that nobody referred to.
type passed struct {
	version string
	gone    bool
	number  uint64 // of those of the source
}

// outdates says whether a state that a lookup has found is an older one.
func (p passed) outdates(found *resource.Resource) bool {
	return store.Older(found.ResourceVersion(), p.version) || p.gone && found.ResourceVersion() == p.version
}

// knows says whether all that there is for a query is among the objects, and a watch keeps
// it up to date.
func (s *source) knows(of *query) bool {
	if !s.synced || s.stale || s.err != nil {
		return false
	}
	if !s.of.all() {
		return s.of == of.Query
	}
	_, looked := s.looked[of.Query]
	return looked || of.number <= s.listed
}

// matching returns the objects that a query is for.
func (s *source) matching(of *query) []*resource.Resource {
	if of.Name != "" {
		if res := s.objects[of.key()]; res != nil {
			return []*resource.Resource{res}
		}
		return nil
	}
	out := make([]*resource.Resource, 0, len(s.objects))
	for _, res := range s.objects {
		if s.of == of.Query || of.matches(res, res.Labels()) {
			out = append(out, res)
		}
	}
	return out
}

// askedForLocked returns the queries that the source can answer and that are for an object.
func (s *source) askedForLocked(res *resource.Resource) []*query {
	return slices.DeleteFunc(s.matchingLocked(res), func(of *query) bool { return !s.of.covers(of.Query) })
}

// coveredLocked returns the queries that the source can answer.
func (s *source) coveredLocked() (covered []*query) {
	if !s.of.all() {
		if of := s.mu.queries[s.of]; of != nil {
			covered = append(covered, of)
		}
		return covered
	}
	for _, of := range s.mu.queries {
		if s.of.covers(of.Query) {
			covered = append(covered, of)
		}
	}
	return covered
}

// let drops the objects that were held for a query alone.
func (s *source) let(of *query) {
	for _, res := range s.matching(of) {
		if len(s.askedForLocked(res)) == 0 {
			delete(s.objects, res.Key())
		}
	}
}

// concernsLocked returns the queries that have to be told of a change of an object from one
// state to another; nil is no object.
func (s *source) concernsLocked(was, is *resource.Resource) []*query {
	if !s.of.all() {
		return s.coveredLocked()
	}
	var out []*query
	for _, res := range []*resource.Resource{was, is} {
		if res == nil {
			continue
		}
		for _, of := range s.askedForLocked(res) {
			if !slices.Contains(out, of) {
				out = append(out, of)
			}
		}
	}
	return out
}

// setLocked replaces what is held of an object; a nil res is none. It returns the queries
// that this concerns. What is in a namespace though the type has none is never held: a query for a type
// without namespaces names none, and would be one for those of others.
func (s *source) setLocked(key types.NamespacedName, res *resource.Resource) []*query {
	was := s.objects[key]
	switch {
	case res == nil:
	case s.clusterScoped && res.Namespace() != "":
		res = nil
		s.doubt()
	case s.of.all() && len(s.askedForLocked(res)) == 0:
		res = nil
	}
	if was == res || was != nil && res != nil && was.UID() == res.UID() && was.ResourceVersion() == res.ResourceVersion() {
		return nil
	}
	if res == nil {
		delete(s.objects, key)
	} else {
		s.objects[key] = res
	}
	return s.concernsLocked(was, res)
}

// listing notes that a list is about to be asked for.
func (s *source) listing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.mu.count
}

// Observe is watch.Mirror's.
func (s *source) Observe(_ store.Stream, res *resource.Resource) store.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.advanceLocked(res.ResourceVersion())
	key := res.Key()
	if s.outdates(key, res.ResourceVersion()) || s.overLocked(res, res.ResourceVersion()) {
		return store.Change{}
	}
	if s.of.all() && isShort(res) && len(s.askedForLocked(res)) > 0 { // somebody refers to it since it was read
		s.lookLocked(Query{Type: s.of.Type, Namespace: key.Namespace, Name: key.Name}, true)
		return store.Change{}
	}
	return s.observedLocked(key, res, res.ResourceVersion())
}

// outdates says whether what the watch tells of an object, as of a resourceVersion, was told
// before. A watch that begins again some events ago may tell of an object that is gone since.
func (s *source) outdates(key types.NamespacedName, version string) bool {
	if held := s.objects[key]; held != nil {
		return store.Older(version, held.ResourceVersion())
	}
	return store.Older(version, s.position)
}

// overLocked says whether what was told of an object, as of a resourceVersion, is over: a lookup
// that was answered before has told what there was later on. The watch will tell that, too.
func (s *source) overLocked(res *resource.Resource, version string) bool {
	if len(s.looked) == 0 {
		return false
	}
	return slices.ContainsFunc(s.askedForLocked(res), func(of *query) bool {
		at, ok := s.looked[of.Query]
		return ok && store.Older(version, at)
	})
}

// observedLocked takes a state that the watch has delivered, nil for the end of an object.
//
// Of a parent itself and its children other watches tell, but that one has ended here: see Config.FamilyOf.
func (s *source) observedLocked(key types.NamespacedName, res *resource.Resource, version string) store.Change {
	before := s.objects[key]
	concerned := s.setLocked(key, res)
	if s.passed != nil && s.objects[key] == nil {
		s.passes++
		s.passed[key] = passed{version, res == nil, s.passes}
	}
	c := store.Change{Parents: parentsOf(concerned...)}
	if now := cmp.Or(res, before); now != nil && s.FamilyOf != nil {
		family, ok := s.FamilyOf(now)
		if at := slices.Index(c.Parents, family); ok && at >= 0 {
			c.Parents = slices.Delete(c.Parents, at, at+1)
			if res == nil {
				c.Own = []types.UID{family}
			}
		}
	}
	s.changedLocked(c.Parents)
	return c
}

// ObserveDeleted is watch.Mirror's.
func (s *source) ObserveDeleted(_ store.Stream, res *resource.Resource) store.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.advanceLocked(res.ResourceVersion())
	key := res.Key()
	if s.outdates(key, res.ResourceVersion()) {
		return store.Change{}
	}
	return s.observedLocked(key, nil, res.ResourceVersion())
}

// Replace is watch.Mirror's.
func (s *source) Replace(_ store.Stream, list []*resource.Resource, version string) (c store.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var concerned []*query
	listed := make(map[types.NamespacedName]struct{}, len(list))
	for _, res := range list {
		key := res.Key()
		listed[key] = struct{}{}
		if held := s.objects[key]; held != nil && store.Older(res.ResourceVersion(), held.ResourceVersion()) {
			continue
		}
		if s.of.all() && isShort(res) {
			res = nil // nobody has referred to it when the list was asked for
		}
		concerned = append(concerned, s.setLocked(key, res)...)
	}
	for key, held := range s.objects {
		if _, ok := listed[key]; ok || store.Older(version, held.ResourceVersion()) {
			continue // a lookup has found it since
		}
		concerned = append(concerned, s.setLocked(key, nil)...)
	}
	if !s.synced { // it tells nothing new but to those that wait
		concerned = nil
	}
	s.position, s.listed, s.synced = version, s.asked, true
	clear(s.looked)
	for _, l := range s.looking {
		l.again = true // what it finds may be older than the list
	}
	if s.err != nil { // nobody is told before there is a watch
		return c
	}
	c.Parents = parentsOf(concerned...)
	s.changedLocked(c.Parents)
	c.Parents = append(c.Parents, s.wokenLocked(s.coveredLocked()...)...)
	slices.Sort(c.Parents)
	c.Parents = slices.Compact(c.Parents)
	s.signal()
	return c
}

// Bookmark is watch.Mirror's.
func (s *source) Bookmark(_ store.Stream, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceLocked(version)
}

// HoldFields is watch.Mirror's. It does nothing: related objects are never written.
func (s *source) HoldFields(*resource.Resource, []string) {}

func (s *source) advanceLocked(version string) {
	if s.position == "" || store.Older(s.position, version) {
		s.position = version
	}
	if s.mu.transit {
		s.signal()
	}
}

// shortField marks what shorten has made. No API server serves such a field.
const shortField = "roperator/short"

// shorten returns an object as it is if a parent refers to it. Otherwise it returns no more
// than its name, its version and its labels: a list may be of very many.
func (r *Relations) shorten(res *resource.Resource) *resource.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.matchingLocked(res)) > 0 {
		return res
	}
	t := res.Type()
	raw, err := json.Marshal(struct {
		metav1.PartialObjectMetadata
		Short bool `json:"roperator/short"`
	}{metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: t.APIVersion, Kind: t.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: res.Namespace(), Name: res.Name(), UID: res.UID(), ResourceVersion: res.ResourceVersion(), Labels: res.Labels()},
	}, true})
	if err != nil {
		return res // can't be: strings have JSON
	}
	short, err := resource.New(raw)
	if err != nil {
		return res // can't be: it has all that a Resource must have
	}
	return short
}

// isShort says whether shorten has left something out.
func isShort(res *resource.Resource) bool {
	_, short := res.Field(shortField)
	return short
}
