package relate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/resource"
)

const (
	mostWatches = 64 // see Config.MostWatches

	// settleTime is how long Run waits for further references before it starts and ends
	// watches. Many parents are looked at within it when an operator starts.
	settleTime = 5 * time.Millisecond

	// mostLookups is how many lookups run at once.
	mostLookups = 8

	// A lookup that fails is tried again after firstRetry, then after twice as long each
	// time, up to lastRetry.
	firstRetry, lastRetry = 800 * time.Millisecond, 15 * time.Second
	retrySteps            = 6
)

// Run keeps the watches that are needed, until ctx ends. It returns when all goroutines
// have ended. It must be called only once.
func (r *Relations) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, mostLookups) // one for each lookup that waits for an answer
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.dirty:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleTime):
		}
		starts, lookups, change := r.settle(ctx, slots)
		for _, s := range starts {
			wg.Go(func() { s.run() })
		}
		for _, start := range lookups {
			wg.Go(start)
		}
		r.Changed(change, "related objects")
	}
}

// settle ends the watches that nobody needs, and returns those that are to be started, the
// lookups that are to be made, and the parents for which another watch tells something
// else than the one before.
func (r *Relations) settle(ctx context.Context, slots chan struct{}) (starts []*source, lookups []func(), c store.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := r.wantedLocked()
	for q := range wanted {
		if s := r.mu.sources[q]; s != nil && s.stale {
			r.endLocked(s)
		}
		if r.mu.sources[q] == nil {
			starts = append(starts, r.startLocked(ctx, q))
		}
	}
	r.mu.transit = false
	for q, s := range r.mu.sources {
		if _, ok := wanted[q]; ok {
			lookups = append(lookups, s.lookupsLocked(ctx, slots)...)
			continue
		}
		parents, replaced := s.replacedLocked(wanted)
		if !replaced && !s.stale {
			r.mu.transit = true
			continue
		}
		r.endLocked(s)
		c.Parents = append(c.Parents, parents...)
	}
	return starts, lookups, c
}

// wantedLocked returns what is to be watched.
func (r *Relations) wantedLocked() map[Query]struct{} {
	groups := map[Query][]*query{} // by everything of the type and namespace
	namespaces := map[Query]int{}  // of how many there are queries, by everything of the type
	for _, of := range r.mu.queries {
		if r.unservedLocked(of.Query) {
			continue
		}
		all := of.Everything()
		if groups[all] == nil && of.Namespace != "" {
			namespaces[Query{Type: of.Type}]++
		}
		groups[all] = append(groups[all], of)
	}
	wide := func(all Query) bool {
		most := r.MostWatches
		if r.mu.sources[all] != nil {
			most = most * 3 / 4
		}
		_, narrow := r.mu.narrow[all.Type]
		return len(groups[all]) > most || r.mu.queries[all] != nil || namespaces[all] > most && !narrow && r.Everywhere(all.Type)
	}
	wanted := map[Query]struct{}{}
	for all, queries := range groups {
		served := false
		for _, broad := range []Query{{Type: all.Type}, all} {
			if !served && wide(broad) {
				wanted[broad] = struct{}{}
				s := r.mu.sources[broad]
				served = s == nil || !apierrors.IsForbidden(s.err)
			}
		}
		if !served {
			for _, of := range r.fewestLocked(queries) {
				wanted[of.Query] = struct{}{}
			}
		}
	}
	return wanted
}

// fewestLocked returns those queries that have a watch each. If that can't be all of them, as
// where a watch of everything is forbidden, they are those of the parents that refer to the
// fewest objects: one that refers to very many keeps nobody else from its own.
func (r *Relations) fewestLocked(queries []*query) []*query {
	if len(queries) <= r.MostWatches {
		return queries
	}
	count := make(map[*query]int, len(queries)) // of the queries of the parent that has the fewest
	for _, of := range queries {
		for uid := range of.parents {
			if n := len(r.mu.parents[uid].queries); count[of] == 0 || n < count[of] {
				count[of] = n
			}
		}
	}
	slices.SortFunc(queries, func(a, b *query) int { return cmp.Or(count[a]-count[b], Compare(a.Query, b.Query)) })
	return queries[:r.MostWatches]
}

// startLocked returns the source of a query, which is to be run.
func (r *Relations) startLocked(ctx context.Context, q Query) *source {
	k := r.mu.kinds[q.Type]
	s := &source{of: q, Relations: r, clusterScoped: !k.Namespaced, objects: map[types.NamespacedName]*resource.Resource{}, asked: r.mu.count}
	ctx, stop := context.WithCancel(ctx)
	s.stop = stop
	opts := q.Options()
	s.watcher = watch.New(watch.Config{
		Kind: k, Namespace: q.Namespace, Selector: opts.LabelSelector, Fields: opts.FieldSelector, Selected: "related " + q.String(),
		Client: r.Client, Store: s, Log: r.Log, Metrics: r.Metrics.Of(q.Type), Changed: s.changed,
		Fatal: s.refused, Established: s.established, Interrupted: s.interrupted, Listing: s.listing,
	})
	s.run = func() {
		defer stop()
		s.watcher.Run(ctx)
	}
	r.mu.sources[q] = s
	return s
}

// endLocked ends a source. What is on its way from it comes to nothing.
func (r *Relations) endLocked(s *source) {
	s.stop()
	s.stale = true
	delete(r.mu.sources, s.of)
}

// changed passes on what the watcher tells, unless the source has ended.
func (s *source) changed(c store.Change, _ schedule.Priority, why schedule.Trigger) {
	s.mu.Lock()
	over := s.mu.sources[s.of] != s
	s.mu.Unlock()
	if !over {
		s.Changed(c, why)
	}
}

// refused notes why the API server serves no watch. The parents fail that refer to what would
// be watched. A list may have told them of it, but no watch keeps that up to date.
func (s *source) refused(err error) {
	s.mu.Lock()
	var c store.Change
	switch {
	case s.mu.sources[s.of] != s:
	case apierrors.IsForbidden(err) && s.of == (Query{Type: s.of.Type}) && !s.anywhereLocked(): // the namespaces get watches of their own
		s.mu.narrow[s.of.Type], s.stale = struct{}{}, true
		if s.synced {
			c.Parents = parentsOf(s.coveredLocked()...)
		}
		s.signal()
	case s.err != nil && (apierrors.IsForbidden(s.err) || !apierrors.IsForbidden(err)):
	default:
		s.err = err
		if s.synced {
			c.Parents = parentsOf(s.coveredLocked()...)
		} else {
			c.Parents = s.wokenLocked(s.coveredLocked()...)
		}
		s.signal()
	}
	s.mu.Unlock()
	s.Changed(c, s.trigger()) // though it may have ended since
}

// anywhereLocked says whether there is a query for objects in all namespaces.
func (s *source) anywhereLocked() bool {
	return slices.ContainsFunc(s.coveredLocked(), func(of *query) bool { return of.Namespace == "" && !s.unservedLocked(of.Query) })
}

// interrupted notes that the API server doesn't serve the type (gone). If there has been no
// list yet, the parents fail that wait for it. Otherwise what there was is known.
func (s *source) interrupted(gone bool) {
	s.mu.Lock()
	known := s.synced
	s.mu.Unlock()
	if gone && !known {
		s.refused(errors.New("the API server doesn't serve the type"))
	}
	if gone {
		s.doubt()
	}
}

// doubt says that the type may be served otherwise than before.
func (s *source) doubt() {
	if s.Doubt != nil {
		s.Doubt(s.of.Type)
	}
}

// established notes that there is a watch. If a list has arrived before, the parents are due
// that have failed for want of a watch.
func (s *source) established() {
	s.mu.Lock()
	var c store.Change
	if s.err != nil {
		s.err = nil
		c.Parents = s.wokenLocked(s.coveredLocked()...)
		s.signal()
	}
	s.mu.Unlock()
	s.changed(c, schedule.Fresh, s.trigger())
}

// trigger names the watch as the reason of a pass.
func (s *source) trigger() schedule.Trigger {
	return schedule.Trigger("watch of " + s.of.Type.Kind)
}

// lookupsLocked returns the lookups that are due: of the queries that are newer than the
// list of a watch of everything.
func (s *source) lookupsLocked(ctx context.Context, slots chan struct{}) (starts []func()) {
	if !s.synced || s.err != nil || !s.of.all() {
		return nil
	}
	due := slices.DeleteFunc(s.coveredLocked(), func(of *query) bool { return s.knows(of) || s.looking[of.Query] != nil })
	if len(due) > s.MostWatches { // one list tells of all of them
		due = due[:0]
		if s.looking[s.of] == nil {
			s.lookLocked(s.of, false)
		}
	}
	for _, of := range due {
		s.lookLocked(of.Query, false)
	}
	for q, l := range s.looking {
		if l.running {
			continue
		}
		l.running = true
		if s.passed == nil {
			s.passed = map[types.NamespacedName]passed{}
		}
		starts = append(starts, func() { s.lookUp(ctx, slots, q, l) })
	}
	return starts
}

// replacedLocked says whether other sources, among those wanted, know what this one knows: the
// same states, or up to the same resourceVersion. It returns the parents to which they tell
// something else.
func (s *source) replacedLocked(wanted map[Query]struct{}) (parents []types.UID, replaced bool) {
	for _, of := range s.mu.queries {
		if !s.of.covers(of.Query) || !s.knows(of) {
			continue
		}
		var by *source
		for _, q := range of.servers() {
			if _, ok := wanted[q]; ok && s.mu.sources[q] != nil && s.mu.sources[q].knows(of) {
				by = s.mu.sources[q]
			}
		}
		switch {
		case by == nil:
			return nil, false
		case sameStates(s.matching(of), by.matching(of)): // whatever else has changed elsewhere
		case store.Older(by.position, s.position):
			return nil, false
		default:
			parents = append(parents, parentsOf(of)...)
		}
	}
	return parents, true
}

// sameStates says whether two lists have the same objects in the same states, in any order.
func sameStates(a, b []*resource.Resource) bool {
	if len(a) != len(b) {
		return false
	}
	versions := make(map[types.UID]string, len(a))
	for _, res := range a {
		versions[res.UID()] = res.ResourceVersion()
	}
	for _, res := range b {
		if version, ok := versions[res.UID()]; !ok || version != res.ResourceVersion() {
			return false
		}
	}
	return true
}
