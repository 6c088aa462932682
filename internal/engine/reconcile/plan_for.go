package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// A supposition is a parent in a plan that isn't as the API server has it.
type supposition struct {
	parent *resource.Resource
	isNew  bool // the API server has no such parent
	untold bool // the API server wasn't asked what it would make of the parent
}

// suppositions are the parents of a plan that are supposed, by their UIDs. The zero value
// has none. It is safe for concurrent use.
type suppositions struct {
	mu struct {
		sync.Mutex
		byUID map[types.UID]*supposition
	}
}

// of returns what is supposed of a parent, nil if it is as the API server has it.
func (s *suppositions) of(uid types.UID) *supposition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.byUID[uid]
}

func (s *suppositions) add(of *supposition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.byUID == nil {
		s.mu.byUID = map[types.UID]*supposition{}
	}
	s.mu.byUID[of.parent.UID()] = of
}

// PlanFor is PlanAll for parents as somebody would have them: each is first defaulted
// and admitted by a dry run, and then planned as if it were live. Other parents aren't
// planned. A mistake in one of the objects is an error before any parent is planned.
func (e *Engine) PlanFor(ctx context.Context, edited []plan.Edited) ([]plan.Change, error) {
	edited, err := plan.CheckEdited(e.Settings, edited)
	if err != nil {
		return nil, err
	}
	e.once = true
	if err := e.listAll(ctx); err != nil {
		return nil, err
	}
	slices.SortStableFunc(edited, func(a, b plan.Edited) int {
		x, y := a.Key(), b.Key()
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	changes, errs := each(e, len(edited), func(i int) ([]plan.Change, error) {
		changes, err := e.planEdited(ctx, &edited[i])
		if err != nil {
			err = fmt.Errorf("%s: %w", edited[i].Source, about(&edited[i], err))
		}
		return changes, err
	})
	all := slices.Concat(changes...)
	plan.DoubtRivals(all)
	return all, errors.Join(errs...)
}

// planEdited plans a parent as it would be, and plans it anew if the parent or a child
// has changed in the middle.
func (e *Engine) planEdited(ctx context.Context, d *plan.Edited) (found []plan.Change, err error) {
	defer e.recovered(ctx, &err, "planning panicked", "namespace", d.Key().Namespace, "name", d.Key().Name)
	for range planTries {
		supposed, err := e.suppose(ctx, d)
		switch {
		case apierrors.IsConflict(err): // it has changed in the middle
			continue
		case err != nil:
			return nil, err
		}
		if !e.Selects(supposed.parent) {
			return e.planUnselected(ctx, supposed.parent), nil
		}
		e.supposed.add(supposed)
		e.store.Suppose(supposed.parent)
		changes, outdated, err := e.tryPlan(ctx, supposed.parent)
		if outdated {
			continue
		}
		for i := range changes {
			changes[i].Unsure = changes[i].Unsure || supposed.untold
		}
		return changes, err
	}
	return nil, errKeepChanging
}

// planUnselected plans a parent that the ParentSelector wouldn't match.
func (e *Engine) planUnselected(ctx context.Context, parent *resource.Resource) []plan.Change {
	e.log.InfoContext(ctx, "the ParentSelector doesn't match this parent: nothing is done for it", "namespace", parent.Namespace(), "name", parent.Name(), "selector", e.Config.ParentSelector)
	if !e.hasOurs(parent) {
		return nil
	}
	return []plan.Change{e.foreseeRelease(parent)}
}
