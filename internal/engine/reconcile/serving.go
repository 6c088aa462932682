package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// Types come and go: a CustomResourceDefinition is installed after the operator has
// started, is removed, and is installed again. While a type of children or a related one
// isn't served, the API server is asked again and again whether it is. Once it is, it is
// watched, and the parents that waited for it are due.

const (
	// lookEvery is how often the API server is asked for a type that it doesn't serve.
	lookEvery = 5 * time.Second
	// goneAfter is for how long a type must not be served until its objects count as gone.
	// An API server that has just started may not know all types yet.
	goneAfter = 10 * time.Second
)

// The servedTypes are what an engine knows of types that come and go.
type servedTypes struct {
	finder *catalog.Finder // nil: it isn't asked
	wake   chan struct{}   // holds a token after a new doubt

	mu struct {
		sync.Mutex
		doubted map[resource.Type]struct{}               // types of which the API server is to be asked
		waiting map[resource.Type]map[types.UID]struct{} // type -> parents with a desired child of it
		broken  map[resource.Type]error                  // types that are served and can't be watched all the same
	}
}

func (s *servedTypes) init(finder *catalog.Finder) {
	s.finder, s.wake = finder, make(chan struct{}, 1)
	s.mu.doubted = map[resource.Type]struct{}{}
	s.mu.waiting = map[resource.Type]map[types.UID]struct{}{}
	s.mu.broken = map[resource.Type]error{}
}

// doubtServed notes that the API server has answered that it doesn't serve a type, or may
// serve it otherwise than before.
func (e *Engine) doubtServed(t resource.Type) {
	if e.serving.finder == nil || t == e.Config.Parent {
		return
	}
	e.serving.mu.Lock()
	e.serving.mu.doubted[t] = struct{}{}
	e.serving.mu.Unlock()
	select {
	case e.serving.wake <- struct{}{}:
	default: // a token is there
	}
}

// doubts returns the types that are in doubt, which aren't any more then.
func (s *servedTypes) doubts() []resource.Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	doubted := slices.Collect(maps.Keys(s.mu.doubted))
	clear(s.mu.doubted)
	return doubted
}

// fail notes why a type can't be watched though it is served; nil: it can. It says whether
// that is news.
func (s *servedTypes) fail(t resource.Type, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.mu.broken[t]
	if delete(s.mu.broken, t); err != nil {
		s.mu.broken[t] = err
	}
	return err != nil && (before == nil || before.Error() != err.Error())
}

// A Missing is a type that isn't watched.
type Missing struct {
	Type     resource.Type
	Optional bool            // nothing is wrong if it isn't served
	Err      error           // says why
	Similar  []resource.Type // what may be meant instead: see catalog.SimilarTo
}

// Missing returns the types of children and the related types that aren't watched, since the
// API server doesn't serve them, or serves them otherwise than it must.
func (e *Engine) Missing() (missing []Missing) {
	now := e.types()
	note := func(k *catalog.Kind, optional bool) {
		if !k.Unserved {
			return
		}
		e.serving.mu.Lock()
		err := e.serving.mu.broken[k.Type]
		e.serving.mu.Unlock()
		if err != nil {
			optional = false
		} else {
			err = k.NotServed()
		}
		at := slices.IndexFunc(missing, func(m Missing) bool { return m.Type == k.Type })
		if at < 0 {
			missing = append(missing, Missing{k.Type, optional, err, k.Similar})
			return
		}
		missing[at].Optional = missing[at].Optional && optional
	}
	for _, k := range now.Children {
		note(k, k.Child.Optional)
	}
	for i, k := range now.Related {
		note(k, e.Config.Related[i].Optional)
	}
	return missing
}

// awaitTypes notes for which types the parent waits whose children it wants. It says
// whether one of them is served by now, so that the parent is to be looked at again.
func (p *pass) awaitTypes(planned *plan.Plan) (again bool) {
	s := &p.serving
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(p.parent.UID())
	now := p.Engine.types()
	for _, ref := range planned.Unserved {
		if !now.Of(ref.Type).Unserved {
			return true
		}
		if s.mu.waiting[ref.Type] == nil {
			s.mu.waiting[ref.Type] = map[types.UID]struct{}{}
		}
		s.mu.waiting[ref.Type][p.parent.UID()] = struct{}{}
	}
	return false
}

// forget drops what is known of a parent that is gone.
func (s *servedTypes) forget(parent types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(parent)
}

func (s *servedTypes) forgetLocked(parent types.UID) {
	for _, waiting := range s.mu.waiting {
		delete(waiting, parent)
	}
}

// waited returns the parents that have waited for a type. They don't any more.
func (s *servedTypes) waited(t resource.Type) []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := slices.Collect(maps.Keys(s.mu.waiting[t]))
	delete(s.mu.waiting, t)
	return waited
}
