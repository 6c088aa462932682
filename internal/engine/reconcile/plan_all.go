package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// planTries is how often a parent is planned if the parent or one of its children
// changes in the middle each time.
const planTries = 5

// PlanAll lists the parents and the children, and returns what one pass over every
// parent would change, in the order of the parents' namespaces and names. The
// engine's configuration must have DryRun set. A parent whose pass would fail
// doesn't keep the others from being planned: the error joins what went wrong.
func (e *Engine) PlanAll(ctx context.Context) ([]plan.Change, error) {
	parents, err := e.parentsToPlan(ctx)
	if err != nil {
		return nil, err
	}
	changes, errs := each(e, len(parents), func(i int) ([]plan.Change, error) { return e.planParent(ctx, parents[i]) })
	all := slices.Concat(changes...)
	plan.DoubtRivals(all)
	return all, errors.Join(errs...)
}

// PlanEach is PlanAll for who doesn't wait for the last parent: found is called for each parent once it is
// planned, one at a time and in no order, with what its pass would change or why it would fail. parents is
// how many there are. What becomes of an object that several parents want isn't marked as unsure: see plan.DoubtRivals. If ctx ends, the parents that are left aren't planned, and the error is the context's.
func (e *Engine) PlanEach(ctx context.Context, found func(parent types.NamespacedName, changes []plan.Change, err error, parents int)) error {
	parents, err := e.parentsToPlan(ctx)
	if err != nil {
		return err
	}
	var one sync.Mutex
	_, errs := each(e, len(parents), func(i int) (told struct{}, _ error) {
		changes, err := e.planParent(ctx, parents[i])
		one.Lock()
		defer one.Unlock()
		if ctx.Err() == nil {
			found(parents[i].Key(), changes, err, len(parents))
		}
		return told, nil
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// parentsToPlan lists everything into the store, and returns the parents by namespace and name.
func (e *Engine) parentsToPlan(ctx context.Context) ([]*resource.Resource, error) {
	e.once = true
	if err := e.listAll(ctx); err != nil {
		return nil, err
	}
	e.memory.Inherit(e.store.AllParents())
	e.WarnMissingNamespaces(ctx)
	return e.allParents(ctx)
}

// planParent plans a parent, or its release if it has left the ParentSelector.
func (e *Engine) planParent(ctx context.Context, parent *resource.Resource) ([]plan.Change, error) {
	if _, left := e.store.DepartedParent(parent.UID()); left {
		return []plan.Change{e.foreseeRelease(parent)}, nil
	}
	changes, err := e.planOne(ctx, parent)
	if err != nil {
		return changes, about(object.RefOf(parent), err)
	}
	return changes, nil
}

// about returns an error that starts with its subject, which it may do already.
func about(subject fmt.Stringer, err error) error {
	if strings.HasPrefix(err.Error(), subject.String()+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// listAll lists every type into the store, and notes the unlabelled objects that the
// operator may adopt. Its error joins all lists that are forbidden.
func (e *Engine) listAll(ctx context.Context) error {
	var forbidden []error
	e.Watchers(nil)
	for _, w := range e.Running() {
		err := w.Refresh(ctx)
		switch {
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, catalog.Forbidden(w.Kind, "list", err))
		case err != nil:
			return err
		}
	}
	if len(forbidden) > 0 {
		return errors.Join(forbidden...)
	}
	for _, k := range e.Types.Former {
		for _, l := range e.listsOf(k) {
			if err := e.listFormer(ctx, l); err != nil {
				return catalog.Forbidden(l.kind, "list", err)
			}
		}
	}
	for _, l := range e.adoptableLists() {
		if err := e.listUnlabelled(ctx, l); err != nil {
			return catalog.Forbidden(l.kind, "list", err)
		}
	}
	return nil
}

// allParents returns every parent that the store holds, and those that have left the
// ParentSelector with a finalizer of the operator, by namespace and name.
func (e *Engine) allParents(ctx context.Context) ([]*resource.Resource, error) {
	var parents []*resource.Resource
	for _, uid := range e.store.AllParents() {
		if parent, ok := e.store.Parent(uid); ok {
			parents = append(parents, parent)
		}
	}
	if e.holdsDeparted() {
		departed, err := e.listDeparted(ctx)
		if err != nil {
			return nil, err
		}
		parents = append(parents, departed...)
	}
	slices.SortFunc(parents, object.Compare)
	return parents, nil
}

// planOne plans a parent, and plans it anew if the parent or a child has changed
// in the middle.
func (e *Engine) planOne(ctx context.Context, parent *resource.Resource) (found []plan.Change, err error) {
	defer e.recovered(ctx, &err, "planning panicked", "namespace", parent.Namespace(), "name", parent.Name())
	for range planTries {
		changes, outdated, err := e.tryPlan(ctx, parent)
		if !outdated {
			return changes, err
		}
	}
	return nil, errKeepChanging
}

// errKeepChanging is the error about a parent that can't be planned.
var errKeepChanging = errors.New("it and its children keep changing; plan again when they have settled")

// tryPlan plans a parent, and once more with the objects that it would take over. outdated
// says that the parent or a child has changed in the middle.
func (e *Engine) tryPlan(ctx context.Context, parent *resource.Resource) (changes []plan.Change, outdated bool, err error) {
	var taken takenOver
	for {
		changes, outdated, err = e.planPass(ctx, parent, &taken)
		if outdated || !taken.more {
			return taken.in(changes), outdated, err
		}
	}
}

// planPass plans a pass over a parent that has taken objects over.
func (e *Engine) planPass(ctx context.Context, parent *resource.Resource, taken *takenOver) (changes []plan.Change, outdated bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	req, ok := e.snapshot(parent.UID())
	if !ok {
		return nil, false, nil // the parent has gone since
	}
	taken.show(req)
	p := e.newPass(req)
	p.taken = taken
	_, err = p.run(ctx)
	outdated, readErr := p.rereadChildren(ctx)
	if outdated || p.outdated || p.doubts() {
		return nil, true, nil
	}
	taken.find(p)
	return p.foreseen, false, errors.Join(err, readErr)
}

// rereadChildren reads the children that a rehearsed write has found changed since
// they were listed, and says whether there were any.
func (p *pass) rereadChildren(ctx context.Context) (outdated bool, err error) {
	for _, r := range slices.Concat(p.results, p.queued) {
		if !r.Await || r.Parked {
			continue
		}
		if r.Action.Verb == plan.VerbAdopt {
			outdated = true // each try reads the unlabelled objects anew
			continue
		}
		changed, err := p.rereadChild(ctx, r.Action)
		if err != nil {
			return false, err
		}
		outdated = outdated || changed
	}
	return outdated, nil
}

// doubts says whether a rehearsed write awaits a newer state of a child for the first
// time. If there is none, the next try finds out that the write is refused.
func (p *pass) doubts() bool {
	return slices.ContainsFunc(p.results, func(r apply.Result) bool {
		return r.Await && !r.Parked && p.memory.Tries(r.Action) == 1
	})
}

// rereadChild brings the store up to date with the child of an action, and says
// whether the child has changed.
func (p *pass) rereadChild(ctx context.Context, a *plan.Action) (changed bool, err error) {
	held, ok := p.store.Object(a.Ref)
	live, err := p.client.Get(ctx, a.Kind, a.Ref.Key)
	switch {
	case apierrors.IsNotFound(err) && ok:
		p.store.ObserveDeleted(store.Stream{Type: a.Ref.Type, Namespace: metav1.NamespaceAll}, held)
	case apierrors.IsNotFound(err): // an object that existed for a moment
	case err != nil:
		return false, fmt.Errorf("%s: read: %w", a.Ref, err)
	case !ok && !apply.IsChild(p.Settings, p.parent, live):
		return false, nil // no object that the store would hold; the pass waits for its name
	case a.Live != nil && a.Live.ResourceVersion() == live.ResourceVersion(),
		a.Live == nil && ok && held.UID() == live.UID() && held.ResourceVersion() == live.ResourceVersion() && !apply.IsChild(p.Settings, p.parent, live):
		return false, nil // unchanged; the pass waits for its end
	default:
		p.store.Read(live)
	}
	return true, nil
}

// rereadParent brings the store up to date with the parent, which has changed
// since the snapshot, and notes that the pass is outdated. A supposed parent is
// supposed anew instead.
func (p *pass) rereadParent(ctx context.Context) error {
	if p.supposed != nil {
		p.outdated = true
		return nil
	}
	live, err := p.client.Get(ctx, p.Types.Parent, p.parent.Key())
	switch held, ok := p.store.Parent(p.parent.UID()); {
	case apierrors.IsNotFound(err) && ok, err == nil && ok && live.UID() != p.parent.UID():
		p.store.ObserveDeleted(store.Stream{Type: p.parent.Type()}, held)
	case apierrors.IsNotFound(err), !ok:
	case err != nil:
		return fmt.Errorf("%s: read: %w", object.RefOf(p.parent), err)
	default:
		p.store.Read(live)
	}
	p.outdated = true
	return nil
}
