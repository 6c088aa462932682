package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Children of types that an earlier build had (config.Operator.FormerChildren) are found by
// one list of each type when the engine begins to work. Each parent's are deleted by its
// first pass that succeeds. No watch tells of them.

// The formerChildren are those that were found and aren't deleted yet. It is safe for
// concurrent use.
type formerChildren struct {
	mu struct {
		sync.Mutex
		of map[types.UID][]formerChild // by parent
	}
}

// A formerChild is a child of a type that an earlier build had.
type formerChild struct {
	kind *catalog.Kind
	ref  object.Ref
	uid  types.UID
}

// note notes a child of the parent with this UID, unless it is known.
func (f *formerChildren) note(parent types.UID, child formerChild) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.of == nil {
		f.mu.of = map[types.UID][]formerChild{}
	}
	if !slices.Contains(f.mu.of[parent], child) {
		f.mu.of[parent] = append(f.mu.of[parent], child)
	}
}

// take returns the children of a parent, and forgets them.
func (f *formerChildren) take(parent types.UID) []formerChild {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.mu.of[parent]
	delete(f.mu.of, parent)
	return taken
}

// FindFormer finds the children of types that an earlier build had, before the first pass.
// A list that fails is tried again until ctx ends, except if the list is forbidden.
func (e *Engine) FindFormer(ctx context.Context) error {
	var lists []listOf
	for _, k := range e.Types.Former {
		lists = append(lists, e.listsOf(k)...)
	}
	return e.retryLists(ctx, lists, sought{"of a former type", []string{"get", "list", "delete"}}, e.listFormer)
}

// listFormer notes the objects in a list that are children of parents of this operator, by
// their metadata.
func (e *Engine) listFormer(ctx context.Context, l listOf) error {
	err := e.client.EachMetadata(ctx, l.kind, l.namespace, e.ChildSelector(), func(res *resource.Resource) {
		tracked, _ := res.Label(e.Config.TrackingLabel)
		parent := types.UID(strings.Clone(tracked))
		if e.Shard.Owns(parent) && res.IsControlledBy(e.Config.Parent.GroupVersionKind().GroupKind(), parent) && !res.IsDeleting() {
			e.former.note(parent, formerChild{l.kind, object.RefOf(res).Detached(), types.UID(strings.Clone(string(res.UID())))})
		}
	})
	if err != nil {
		return fmt.Errorf("%s: list: %w", l.kind.Type, err)
	}
	return nil
}

// deleteFormer deletes the parent's children of types that an earlier build had. A dry run
// foresees that. Those that can't be deleted are left for the next pass.
func (p *pass) deleteFormer(ctx context.Context) error {
	children := p.former.take(p.parent.UID())
	if len(children) == 0 {
		return nil
	}
	ends, errs := each(p.Engine, len(children), func(i int) (formerEnd, error) { return p.deleteFormerChild(ctx, children[i]) })
	var names []string
	for i, child := range children {
		switch {
		case ends[i] == formerForeseen:
			p.foreseen = append(p.foreseen, plan.Change{Parent: p.parent.Key(), Object: child.ref.Key, Type: child.ref.Type, Verb: string(plan.VerbDelete)})
			p.former.note(p.parent.UID(), child)
		case errs[i] != nil:
			p.metrics.Wrote(child.ref.Type, string(plan.VerbDelete), observe.WriteError)
			p.former.note(p.parent.UID(), child)
		case ends[i] == formerDeleted:
			p.metrics.Wrote(child.ref.Type, string(plan.VerbDelete), observe.WriteSuccess)
			p.wrote(string(plan.VerbDelete) + " " + child.ref.String())
			names = append(names, p.nameOf(child.ref))
		}
	}
	if len(names) > 0 {
		p.event(p.parent, observe.Normal, observe.ReasonDeleted, "deleted "+joinNames(names)+": an earlier version of the operator had made them")
	}
	return errors.Join(errs...)
}

// A formerEnd is what became of a child of a type that an earlier build had.
type formerEnd uint8

const (
	formerLeft     formerEnd = iota // it is no child of the parent any more, or it couldn't be deleted
	formerDeleted                   // by this pass
	formerForeseen                  // would be deleted, in a dry run
)

// deleteFormerChild deletes one child, unless the object is no child of the parent any more.
func (p *pass) deleteFormerChild(ctx context.Context, child formerChild) (formerEnd, error) {
	live, err := p.client.Get(ctx, child.kind, child.ref.Key)
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.UID() != child.uid || !apply.IsChild(p.Settings, p.parent, live) || live.IsDeleting()):
		return formerLeft, nil
	case err != nil:
		return formerLeft, fmt.Errorf("%s: read: %w", child.ref, catalog.Forbidden(child.kind, "get", err))
	case p.Config.DryRun:
		return formerForeseen, nil
	}
	_, err = apply.DeleteChild(ctx, p.client, p.Settings, child.kind, p.parent, live)
	switch {
	case apierrors.IsNotFound(err):
		return formerLeft, nil
	case err != nil:
		return formerLeft, fmt.Errorf("%s: delete: %w", child.ref, catalog.Forbidden(child.kind, "delete", err))
	}
	return formerDeleted, nil
}
