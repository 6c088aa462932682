package relate

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Config is what Relations are made of. All of it is required but MostWatches, Everywhere, FamilyOf and Doubt.
type Config struct {
	Kinds   []*catalog.Kind // the related types, as they are served at first
	Client  *client.Client  // of these types alone: New has it shorten objects
	Log     *slog.Logger
	Metrics *observe.Metrics
	// MostWatches is how many queries of one type in one namespace have a watch each. When
	// there were more, they have one again once they are three quarters of that. 0: 64.
	MostWatches int
	// Everywhere reports whether the operator may read a type in all namespaces, as far as it is configured. If parents refer to
	// such a type in more than MostWatches namespaces, it has one watch for all of them, unless that is forbidden. Nil: none may be.
	Everywhere func(resource.Type) bool
	// FamilyOf returns the UID of an object that is a parent, or of the parent whose child it is. A new state of a parent's own
	// family is nothing new to it. Nil: no object is one.
	FamilyOf func(*resource.Resource) (types.UID, bool)
	// Changed is called with the parents that are due: what they refer to has changed, or is known by now. Refer tells which. It
	// may be called concurrently.
	Changed func(store.Change, schedule.Trigger)
	// Doubt is called when the API server has answered that it doesn't serve a type, for as
	// long as it does, and when it tells of an object in a namespace though the type has none. It may be called concurrently, and
	// with a lock held: it must return at once, and call nothing of Relations. Nil: nobody wants to know.
	Doubt func(resource.Type)
}

// Relations are what the parents of one operator refer to, and what there is of that. The
// exported methods may be called concurrently.
type Relations struct {
	Config
	dirty chan struct{} // has room for one, which says that other watches may be needed

	mu struct {
		sync.Mutex
		kinds   map[resource.Type]*catalog.Kind // how the types are served
		parents map[types.UID]*references
		queries map[Query]*query             // those that a parent refers by
		broad   map[resource.Type]*selectors // those of queries that aren't for one name
		sources map[Query]*source            // those that run, by what they watch
		narrow  map[resource.Type]struct{}   // may not be watched in all namespaces at once
		count   uint64                       // of the queries that there have been so far
		transit bool                         // a source is kept until another one has caught up with it
	}
}

// A references is what a parent refers to.
type references struct {
	queries []Query // sorted
	waits   bool    // the parent is to be named once all of them are known
	changed bool    // another client has changed what there is for them since Refer last returned it
}

// A query is a Query that parents refer by.
type query struct {
	matcher
	parents map[types.UID]struct{}
	number  uint64 // of those that there have been
	err     error  // why it couldn't be looked up; nil: it wasn't tried, or was answered
	now     answer
}

// An answer is what ReferNow has found for a query.
type answer struct {
	sync.Mutex // held while the API server is asked
	found      []*resource.Resource
	known      bool
}

// New returns Relations in which no parent refers to anything.
func New(c Config) *Relations {
	if c.MostWatches == 0 {
		c.MostWatches = mostWatches
	}
	if c.Everywhere == nil {
		c.Everywhere = func(resource.Type) bool { return false }
	}
	r := &Relations{Config: c, dirty: make(chan struct{}, 1)}
	r.mu.kinds = map[resource.Type]*catalog.Kind{}
	for _, k := range c.Kinds {
		r.mu.kinds[k.Type] = k
	}
	r.mu.parents = map[types.UID]*references{}
	r.mu.queries = map[Query]*query{}
	r.mu.broad = map[resource.Type]*selectors{}
	r.mu.sources = map[Query]*source{}
	r.mu.narrow = map[resource.Type]struct{}{}
	c.Client.Shorten(r.shorten)
	return r
}

// Refer notes what a parent refers to, in place of what it has referred to before, and
// returns what there is of it, sorted by type, namespace and name. queries are sorted, and
// of configured types. If not all of it is known yet, Refer returns false, and Changed will
// name the parent when it is. changed reports whether another client has changed any of it since Refer last returned it: the
// event that says so may come after a reconciliation that has seen the change. The error says why it may never be known: the API
// server refuses to tell. Refer makes no request.
func (r *Relations) Refer(parent types.UID, queries []Query) (found []*resource.Resource, known, changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.referLocked(parent, queries) {
		r.signal()
	}
	refs := r.mu.parents[parent]
	if refs == nil {
		return nil, true, false, nil
	}
	var errs []error
	known = true
	for _, q := range refs.queries {
		of := r.mu.queries[q]
		if r.unservedLocked(q) {
			continue // there are no such objects
		}
		from := r.serverLocked(of)
		if from == nil {
			known = false
			if err := r.whyNotLocked(of); err != nil {
				errs = append(errs, err)
			}
			continue
		}
		of.err = nil
		found = append(found, from.matching(of)...)
	}
	refs.waits = !known
	if !known {
		return nil, false, false, errors.Join(errs...)
	}
	changed, refs.changed = refs.changed, false
	return newestOfEach(found), true, changed, nil
}

// Known returns what a parent refers to, and what there is of it, as far as that is known.
func (r *Relations) Known(parent types.UID) (queries []Query, found []*resource.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refs := r.mu.parents[parent]; refs != nil {
		queries = refs.queries
		for _, q := range queries {
			of := r.mu.queries[q]
			if from := r.serverLocked(of); from != nil {
				found = append(found, from.matching(of)...)
			}
		}
	}
	return queries, newestOfEach(found)
}

// Waiting returns how many parents wait for what they refer to, and will be named once that
// is known.
func (r *Relations) Waiting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, refs := range r.mu.parents {
		if refs.waits && r.anyOpenLocked(refs) {
			n++
		}
	}
	return n
}

// Answers returns the queries that parents refer by, and what there is for each. Those for which
// that isn't known are left out.
func (r *Relations) Answers() map[Query][]*resource.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers := make(map[Query][]*resource.Resource, len(r.mu.queries))
	for q, of := range r.mu.queries {
		if from := r.serverLocked(of); from != nil {
			answers[q] = from.matching(of)
		}
	}
	return answers
}

// Forget drops what a parent refers to that is gone.
func (r *Relations) Forget(parent types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.referLocked(parent, nil) {
		r.signal()
	}
}

// referLocked replaces the queries of a parent. It says whether there are others now.
func (r *Relations) referLocked(parent types.UID, queries []Query) (changed bool) {
	var before []Query
	refs := r.mu.parents[parent]
	if refs != nil {
		before = refs.queries
	}
	if slices.Equal(before, queries) {
		return false
	}
	if refs == nil {
		refs = &references{}
	}
	refs.queries = queries
	r.mu.parents[parent] = refs
	if len(queries) == 0 {
		delete(r.mu.parents, parent)
	}
	for _, q := range queries {
		if r.mu.queries[q] == nil {
			r.addLocked(q)
		}
		r.mu.queries[q].parents[parent] = struct{}{}
	}
	for _, q := range before {
		if _, still := slices.BinarySearchFunc(queries, q, Compare); still {
			continue
		}
		of := r.mu.queries[q]
		if delete(of.parents, parent); len(of.parents) == 0 {
			r.dropLocked(of)
		}
	}
	return true
}

func (r *Relations) addLocked(q Query) {
	r.mu.count++
	of := &query{matcher: newMatcher(q), parents: map[types.UID]struct{}{}, number: r.mu.count}
	r.mu.queries[q] = of
	if q.Name == "" && !q.Unserved {
		if r.mu.broad[q.Type] == nil {
			r.mu.broad[q.Type] = newSelectors()
		}
		r.mu.broad[q.Type].add(of)
	}
}

// dropLocked drops a query by which no parent refers any more, and what is held for it
// alone. A source of its own isn't used again: from now on it may lack objects.
func (r *Relations) dropLocked(of *query) {
	delete(r.mu.queries, of.Query)
	if broad := r.mu.broad[of.Type]; broad != nil {
		if broad.remove(of); broad.empty() {
			delete(r.mu.broad, of.Type)
		}
	}
	for q, s := range r.mu.sources {
		switch {
		case q == of.Query && !q.all():
			s.stale = true
		case q.all() && q.covers(of.Query):
			delete(s.looked, of.Query)
			s.let(of)
		}
	}
}

// serverLocked returns the source that knows all that a query is for, nil if there is none.
// While one takes over from another, that is the one which has come further.
func (r *Relations) serverLocked(of *query) (server *source) {
	for _, q := range of.servers() {
		s := r.mu.sources[q]
		if s != nil && s.knows(of) && (server == nil || store.Older(server.position, s.position)) {
			server = s
		}
	}
	return server
}

// whyNotLocked returns why a query can't be answered, nil if an answer is on its way.
func (r *Relations) whyNotLocked(of *query) error {
	if of.err != nil {
		return fmt.Errorf("%s: %w", of, of.err)
	}
	var why error
	for _, q := range of.servers() {
		switch s := r.mu.sources[q]; {
		case s == nil || s.stale:
		case s.err == nil:
			return nil
		default:
			why = fmt.Errorf("%s: %w", of, s.err)
		}
	}
	return why
}

// changedLocked notes that another client has changed what parents refer to.
func (r *Relations) changedLocked(parents []types.UID) {
	for _, uid := range parents {
		r.mu.parents[uid].changed = true
	}
}

// matchingLocked returns the queries that are for an object.
func (r *Relations) matchingLocked(res *resource.Resource) []*query {
	var out []*query
	if of := r.mu.queries[Query{Type: res.Type(), Namespace: res.Namespace(), Name: res.Name()}]; of != nil {
		out = append(out, of)
	}
	broad := r.mu.broad[res.Type()]
	if broad == nil {
		return out
	}
	held := labels.Set(res.Labels())
	broad.candidates(held, func(of *query) {
		if of.matches(res, held) {
			out = append(out, of)
		}
	})
	return out
}

// wokenLocked returns those parents of some queries that wait, and of which all is known now,
// or can't be known. Their wait is over. Each parent is looked at once: it may refer to very
// much.
func (r *Relations) wokenLocked(queries ...*query) (woken []types.UID) {
	for _, uid := range parentsOf(queries...) {
		refs := r.mu.parents[uid]
		if refs == nil || !refs.waits {
			continue
		}
		if !r.anyOpenLocked(refs) {
			refs.waits = false
			woken = append(woken, uid)
		}
	}
	return woken
}

// anyOpenLocked says whether the answer to one of the queries of a parent is on its way.
func (r *Relations) anyOpenLocked(refs *references) bool {
	return slices.ContainsFunc(refs.queries, func(q Query) bool { return r.openLocked(r.mu.queries[q]) })
}

// openLocked says whether the answer to a query is on its way.
func (r *Relations) openLocked(of *query) bool {
	return !r.unservedLocked(of.Query) && r.serverLocked(of) == nil && r.whyNotLocked(of) == nil
}

// signal has Run look which watches are needed.
func (r *Relations) signal() {
	select {
	case r.dirty <- struct{}{}:
	default:
	}
}

// Usage returns what is held and watched, in the order of the configured types.
func (r *Relations) Usage() []observe.RelatedUsage {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]observe.RelatedUsage, len(r.Kinds))
	for i, k := range r.Kinds {
		out[i].Type = k.Type
		for q, s := range r.mu.sources {
			if q.Type == k.Type {
				out[i].Objects += len(s.objects)
				out[i].Watches++
			}
		}
	}
	return out
}

// Broken returns why objects of a related type aren't up to date, or can't be looked up, nil
// if neither is so. A watch that has only just begun isn't broken.
func (r *Relations) Broken(t resource.Type) error {
	wrong := map[Query]error{}
	r.mu.Lock()
	for q, of := range r.mu.queries {
		if q.Type == t && of.err != nil {
			wrong[q] = of.err
		}
	}
	for q, s := range r.mu.sources {
		if err := cmp.Or(s.err, s.watcher.Broken()); q.Type == t && err != nil {
			wrong[q] = err
		}
	}
	r.mu.Unlock()
	if len(wrong) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(wrong)), Compare)
	return fmt.Errorf("%s: %w", first, wrong[first])
}

// Sizes adds the numbers of entries that are kept, for a test that looks for what isn't
// forgotten.
func (r *Relations) Sizes(out map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out["parents that refer"], out["related queries"], out["related watches"] = len(r.mu.parents), len(r.mu.queries), len(r.mu.sources)
	for _, s := range r.mu.sources {
		out["related objects"] += len(s.objects)
	}
}

// newestOfEach sorts objects, and leaves only the newest state of each.
func newestOfEach(found []*resource.Resource) []*resource.Resource {
	slices.SortStableFunc(found, object.Compare)
	kept := found[:0]
	for _, res := range found {
		last := len(kept) - 1
		switch {
		case last < 0 || object.Compare(kept[last], res) != 0:
			kept = append(kept, res)
		case store.Older(kept[last].ResourceVersion(), res.ResourceVersion()):
			kept[last] = res
		}
	}
	return kept
}

// parentsOf returns the parents that refer by one of these queries, each once.
func parentsOf(queries ...*query) []types.UID {
	all := map[types.UID]struct{}{}
	for _, of := range queries {
		maps.Copy(all, of.parents)
	}
	return slices.Sorted(maps.Keys(all))
}
