package relate

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/resource"
)

// Serve notes how the API server serves a type, from now on or again. All that parents refer
// to of the type is looked up anew. The Change names the parents that do.
func (r *Relations) Serve(k *catalog.Kind) store.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.kinds[k.Type] = k
	delete(r.mu.narrow, k.Type)
	for q, s := range r.mu.sources {
		if q.Type == k.Type {
			s.stale = true
		}
	}
	r.signal()
	return store.Change{Parents: parentsOf(r.ofTypeLocked(k.Type)...)}
}

// Unserve notes that the API server doesn't serve a type: until Serve, there are no objects
// of it, whatever parents refer to. The Change names the parents to which that is news.
func (r *Relations) Unserve(t resource.Type) (c store.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := map[types.UID]struct{}{}
	queries := r.ofTypeLocked(t)
	for _, of := range queries {
		if from := r.serverLocked(of); from == nil || len(from.matching(of)) == 0 {
			continue
		}
		for uid := range of.parents {
			shown[uid] = struct{}{}
		}
	}
	r.mu.kinds[t] = &catalog.Kind{Type: t, Unserved: true}
	for q, s := range r.mu.sources {
		if q.Type == t {
			r.endLocked(s)
		}
	}
	c.Parents = r.wokenLocked(queries...)
	for uid := range shown {
		c.Parents = append(c.Parents, uid)
	}
	return c
}

// unservedLocked says whether there are no objects that a query is for, since their type isn't
// served.
func (r *Relations) unservedLocked(q Query) bool { return q.Unserved || r.mu.kinds[q.Type].Unserved }

// ofTypeLocked returns the queries for objects of a type.
func (r *Relations) ofTypeLocked(t resource.Type) (out []*query) {
	for q, of := range r.mu.queries {
		if q.Type == t {
			out = append(out, of)
		}
	}
	return out
}
