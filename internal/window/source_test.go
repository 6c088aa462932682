package window

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
)

// A fakeSource is what a test says. Its functions may be nil.
type fakeSource struct {
	mu struct {
		sync.Mutex
		overviews map[string]view.Overview // by operator; those without don't run
		families  map[string]view.Family   // by parent, as NAMESPACE/NAME
		on        map[string]func()        // what is done first, by method
	}
	looks, families, explains, taps, releases atomic.Int32 // calls

	explain func(ctx context.Context, known explain.Process) (explain.Explanation, error)
	plan    func(ctx context.Context, found func(view.Planned, int)) error
	record  func(ctx context.Context, to io.Writer) error
}

func newSource() *fakeSource {
	s := &fakeSource{}
	s.mu.overviews, s.mu.families, s.mu.on = map[string]view.Overview{}, map[string]view.Family{}, map[string]func(){}
	s.run("sites")
	return s
}

// on has a method call do first, from now on.
func (s *fakeSource) on(method string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.on[method] = do
}

func (s *fakeSource) called(method string) {
	s.mu.Lock()
	do := s.mu.on[method]
	s.mu.Unlock()
	if do != nil {
		do()
	}
}

// run has an operator run with these parents.
func (s *fakeSource) run(operator string, parents ...view.Parent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.mu.overviews[operator]
	started := was.Figures.Started
	if started.IsZero() {
		started = time.Now()
	}
	s.mu.overviews[operator] = view.Overview{Parents: parents, Figures: view.Figures{Operator: operator, Started: started, Parents: len(parents)}}
}

// stop has an operator not run.
func (s *fakeSource) stop(operator string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.overviews, operator)
}

// know has the operator know a parent, or, with nil, not know it any more.
func (s *fakeSource) know(parent string, family *view.Family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.families, parent)
	if family != nil {
		s.mu.families[parent] = *family
	}
}

func (s *fakeSource) Operators() []string {
	s.called("operators")
	return []string{"sites", "shops"}
}

func (s *fakeSource) Overview(operator string) (view.Overview, bool) {
	s.looks.Add(1)
	s.called("overview")
	s.mu.Lock()
	defer s.mu.Unlock()
	out, ok := s.mu.overviews[operator]
	return out, ok
}

func (s *fakeSource) Family(_ string, parent types.NamespacedName) (view.Family, bool) {
	s.families.Add(1)
	s.called("family")
	s.mu.Lock()
	defer s.mu.Unlock()
	out, ok := s.mu.families[parent.String()]
	return out, ok
}

func (s *fakeSource) Explain(ctx context.Context, _ string, parent types.NamespacedName, known explain.Process) (explain.Explanation, error) {
	n := s.explains.Add(1)
	if s.explain != nil {
		return s.explain(ctx, known)
	}
	return explanationOf(parent.Name, fmt.Sprint(n)), nil
}

// explanationOf returns an explanation of a parent that has a reason.
func explanationOf(name, reason string) explain.Explanation {
	return explain.Explanation{Operator: "sites", Parent: explain.Parent{Object: explain.Object{Kind: "Site", Name: name}, State: explain.Settled, Reason: reason}}
}

func (s *fakeSource) Plan(ctx context.Context, _ string, found func(view.Planned, int)) error {
	if s.plan == nil {
		return nil
	}
	return s.plan(ctx, found)
}

func (s *fakeSource) Tap(string, types.NamespacedName) (release func()) {
	s.called("tap")
	s.taps.Add(1)
	return func() {
		s.releases.Add(1)
		s.called("release")
	}
}

func (s *fakeSource) Record(ctx context.Context, _ string, parent types.NamespacedName, to io.Writer) error {
	if s.record != nil {
		return s.record(ctx, to)
	}
	_, err := fmt.Fprintf(to, "{\"parent\":%q}\n", parent.Name)
	return err
}

var errFake = errors.New("fake: the API server is away")
