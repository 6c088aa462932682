package relate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/resource"
)

// kindOf returns how the type of a query is served.
func (r *Relations) kindOf(q Query) *catalog.Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.Unserved {
		return &catalog.Kind{Type: q.Type, Unserved: true}
	}
	return r.mu.kinds[q.Type]
}

// list asks the API server what there is for a query by which some parent refers, and as of
// which resourceVersion.
func (r *Relations) list(ctx context.Context, q Query) (found []*resource.Resource, version string, err error) {
	k := r.kindOf(q)
	if k.Unserved {
		return nil, "", nil
	}
	found, version, err = r.Client.ListPages(ctx, k, q.Namespace, q.Options())
	return found, version, catalog.Forbidden(k, "list", err)
}

// read is list for who doesn't have to know as of when the answer is: a name needs no list.
func (r *Relations) read(ctx context.Context, q Query) ([]*resource.Resource, error) {
	if q.Name == "" {
		found, _, err := r.list(ctx, q)
		return found, err
	}
	k := r.kindOf(q)
	if k.Unserved {
		return nil, nil
	}
	res, err := r.Client.Get(ctx, k, q.key())
	switch {
	case apierror.IsMissing(err, q.Name):
		return nil, nil
	case err != nil:
		return nil, catalog.Forbidden(k, "get", err)
	}
	return []*resource.Resource{res}, nil
}

// ReferNow is Refer that asks the API server at once for what isn't known, one query after
// the other. It is for Relations that don't Run. What it has found it keeps as long as some
// parent refers to it.
func (r *Relations) ReferNow(ctx context.Context, parent types.UID, queries []Query) ([]*resource.Resource, error) {
	r.mu.Lock()
	r.referLocked(parent, queries)
	of := make([]*query, len(queries))
	for i, q := range queries {
		of[i] = r.mu.queries[q]
	}
	r.mu.Unlock()
	var found []*resource.Resource
	for _, q := range of {
		now, err := r.answer(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		found = append(found, now...)
	}
	return newestOfEach(found), nil
}

// answer returns what there is for a query. The API server is asked once.
func (r *Relations) answer(ctx context.Context, q *query) ([]*resource.Resource, error) {
	q.now.Lock()
	defer q.now.Unlock()
	if q.now.known {
		return q.now.found, nil
	}
	found, err := r.read(ctx, q.Query)
	if err == nil {
		q.now.found, q.now.known = found, true
	}
	return found, err
}

// A lookup asks the API server for what there is for a query, where a watch of everything
// was there before the query.
type lookup struct {
	running bool
	event   bool   // it is of an object of which an event brought the key alone
	asked   uint64 // the number of the newest query when the API server was asked
	passes  uint64 // that of the newest state that had passed by then: the answer is as new as that
	again   bool   // what it finds may be older than what is known by now
}

// lookLocked notes that a query is to be looked up, or, if it is being looked up, once more.
// event says that an event has brought no more than the key of that object.
func (s *source) lookLocked(q Query, event bool) {
	if s.looking == nil {
		s.looking = map[Query]*lookup{}
	}
	if l := s.looking[q]; l != nil {
		l.again, l.event = true, l.event || event
		return
	}
	s.looking[q] = &lookup{event: event}
	s.signal()
}

// lookUp looks a query up until that succeeds, the query is over, or ctx ends. It takes a slot
// for each try.
func (s *source) lookUp(ctx context.Context, slots chan struct{}, q Query, l *lookup) {
	backoff := wait.Backoff{Duration: firstRetry, Cap: lastRetry, Steps: retrySteps, Factor: 2, Jitter: 1}
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		l.again, l.asked, l.passes = false, s.mu.count, s.passes
		s.mu.Unlock()
		found, version, err := s.list(ctx, q) // a name, too: a 404 doesn't say as of when
		<-slots
		change, over := s.found(q, l, found, version, err)
		s.Changed(change, schedule.Trigger("lookup of "+q.Type.Kind))
		if over || ctx.Err() != nil {
			return
		}
		if err == nil {
			continue // again
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
	}
}

// found takes the answer to a lookup, which is as of a resourceVersion. It says whether the
// lookup is over.
func (s *source) found(q Query, l *lookup, found []*resource.Resource, version string, err error) (c store.Change, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.mu.queries[q]
	switch {
	case s.stale, err != nil && of == nil && q != s.of && !l.event: // nobody waits for it
		s.endLookupLocked(q)
		return c, true
	case err != nil:
		for _, of := range s.coveredLocked() {
			if (of.Query == q || q == s.of && !s.knows(of)) && of.err == nil {
				of.err = err
				c.Parents = append(c.Parents, s.wokenLocked(of)...)
			}
		}
		return c, false
	case l.again:
		return c, false
	}
	var concerned []*query
	for _, res := range found {
		key := res.Key()
		if isShort(res) { // nobody referred to it when the API server was asked
			continue
		}
		if p, ok := s.passed[key]; ok && p.number > l.passes && p.outdates(res) {
			continue
		}
		if held := s.objects[key]; held != nil && store.Older(res.ResourceVersion(), held.ResourceVersion()) || s.overLocked(res, version) {
			continue
		}
		concerned = append(concerned, s.setLocked(key, res)...)
	}
	c.Parents = append(parentsOf(concerned...), s.lookedUpLocked(q, l, version)...)
	s.endLookupLocked(q)
	return c, true
}

// lookedUpLocked notes that a lookup has been answered, as of a resourceVersion, and returns
// the parents whose wait is over. An answer about everything is one to all queries. None is one
// to a query that is newer than the request: of its objects the keys alone may have been kept.
func (s *source) lookedUpLocked(q Query, l *lookup, version string) (woken []types.UID) {
	if s.looked == nil {
		s.looked = map[Query]string{}
	}
	var answered []*query
	for _, of := range s.coveredLocked() {
		if (of.Query == q || q == s.of) && of.number <= l.asked {
			of.err = nil
			s.looked[of.Query] = version
			answered = append(answered, of)
		}
	}
	return s.wokenLocked(answered...)
}

// endLookupLocked notes that a lookup is over.
func (s *source) endLookupLocked(q Query) {
	if delete(s.looking, q); len(s.looking) == 0 {
		s.looking, s.passed = nil, nil
	}
	s.signal()
}
