package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Children that another program has made, before this operator came, carry no labels,
// so no watch delivers them. They are found by one list of each type that the
// configuration allows the operator to adopt. A pass reads those of its parent, shows
// them to the handler as children, and makes them children.

// A sought is what a list at the start looks for.
type sought struct {
	name  string   // what the children are, for the log
	verbs []string // of the rule that is needed for it
}

func unlabelledChildren() sought {
	return sought{"unlabelled", []string{"get", "list", "watch"}}
}

// FindUnlabelled finds the unlabelled objects of all parents, before the first pass. A
// list that fails is tried again until ctx ends, except if the list is forbidden. Types
// that the operator may not adopt aren't listed.
func (e *Engine) FindUnlabelled(ctx context.Context) error {
	return e.retryLists(ctx, e.adoptableLists(), unlabelledChildren(), e.listUnlabelled)
}

// retryLists makes lists until each has succeeded, ctx ends, or one is forbidden. It gives one
// up when the type isn't served any more: what it had is gone, or is found when the type is
// back.
func (e *Engine) retryLists(ctx context.Context, lists []listOf, of sought, list func(context.Context, listOf) error) error {
	starts := make([]startList, 0, len(lists))
	for _, l := range lists {
		starts = append(starts, startList{
			kind: l.kind,
			list: func(ctx context.Context) error { return list(ctx, l) },
			needless: func(ctx context.Context, err error) bool {
				return apierrors.IsNotFound(err) && e.isGone(ctx, l.kind.Type)
			},
			forbidden: func(err error) error { return fmt.Errorf("%w; add the rule %s", err, l.kind.Rule(of.verbs...)) },
		})
	}
	return e.makeLists(ctx, starts, func(t resource.Type, err error) {
		e.log.WarnContext(ctx, "can't look for children yet, retrying", "type", t.String(), "what", of.name, "error", err)
	})
}

// isGone says whether the API server doesn't serve a type any more.
func (e *Engine) isGone(ctx context.Context, t resource.Type) bool {
	found, err := e.serving.finder.Find(ctx, t)
	return err == nil && found == nil
}

// A listOf is a list of the objects of a type in a namespace (empty: in all).
type listOf struct {
	kind      *catalog.Kind
	namespace string
}

// adoptableLists returns the lists in which unlabelled objects may be found that the
// operator may adopt.
func (e *Engine) adoptableLists() []listOf {
	var lists []listOf
	for _, k := range e.types().Children {
		lists = append(lists, e.adoptableListsOf(k)...)
	}
	return lists
}

// adoptableListsOf is adoptableLists for one type.
func (e *Engine) adoptableListsOf(k *catalog.Kind) []listOf {
	if k.Unserved || !k.Child.Adopt && !k.Child.AdoptOffered {
		return nil
	}
	return e.listsOf(k)
}

// listsOf returns the lists that together have all objects of a type that the operator
// is concerned with: one in each of the configured namespaces, or one in all.
func (e *Engine) listsOf(k *catalog.Kind) []listOf {
	var lists []listOf
	for _, namespace := range e.NamespacesOf(k) {
		lists = append(lists, listOf{k, namespace})
	}
	return lists
}

// listUnlabelled notes the objects in a list that the operator may adopt, by their
// metadata.
func (e *Engine) listUnlabelled(ctx context.Context, l listOf) error {
	selector := "!" + e.Config.TrackingLabel + ",!" + e.Config.OwnershipLabel
	err := e.client.EachMetadata(ctx, l.kind, l.namespace, selector, func(res *resource.Resource) {
		if parent, ok := apply.Adoptable(e.Settings, l.kind, res); ok && e.Shard.Owns(parent) {
			e.store.NoteUnlabelled(parent, res)
		}
	})
	if err != nil {
		return fmt.Errorf("%s: list: %w", l.kind.Type, err)
	}
	return nil
}

// showUnlabelled reads the unlabelled objects of the parent, and adds those that the
// operator may adopt to the children of the snapshot. It returns false if the snapshot
// is outdated: one of them is a child by now, of which the watch hasn't told yet.
func (p *pass) showUnlabelled(ctx context.Context) (current bool, err error) {
	noted := slices.DeleteFunc(p.store.Unlabelled(p.parent.UID()), func(u store.Unlabelled) bool { return p.taken.has(u.Ref) })
	if len(noted) == 0 {
		return true, nil
	}
	found, errs := each(p.Engine, len(noted), func(i int) (*resource.Resource, error) { return p.readUnlabelled(ctx, noted[i]) })
	current = true
	p.unlabelled = make(map[object.Ref]struct{}, len(noted))
	for i, res := range found {
		switch {
		case errs[i] != nil:
			return false, errs[i]
		case res == nil:
		case apply.IsChild(p.Settings, p.parent, res):
			p.Changed(p.store.Read(res), noted[i].Ref)
			p.store.ForgetUnlabelled(p.parent.UID(), noted[i].Ref)
			current = false
		default:
			p.unlabelled[noted[i].Ref] = struct{}{}
		}
	}
	p.children = slices.DeleteFunc(p.children, func(child *resource.Resource) bool {
		_, replaced := p.unlabelled[object.RefOf(child)]
		return replaced // by an object that was read since
	})
	for i, res := range found {
		if _, ok := p.unlabelled[noted[i].Ref]; ok {
			p.children = append(p.children, res)
		}
	}
	slices.SortFunc(p.children, object.Compare)
	p.show(func(req *handler.SyncRequest) { req.Children = handler.NewChildren(p.children...) })
	return current, nil
}

// readUnlabelled reads an unlabelled object of the parent. It returns nil, and forgets
// the object, if the object is gone or not to be adopted any more. An object that has
// become a child of the parent is returned.
func (p *pass) readUnlabelled(ctx context.Context, noted store.Unlabelled) (*resource.Resource, error) {
	kind := p.Types.Of(noted.Ref.Type)
	if kind.Unserved {
		return nil, nil
	}
	live, err := p.client.Get(ctx, kind, noted.Ref.Key)
	if err != nil && !apierror.IsMissing(err, noted.Ref.Key.Name) {
		return nil, fmt.Errorf("%s: read: %w", noted.Ref, err)
	}
	if err == nil && live.UID() == noted.UID {
		if parent, ok := apply.Adoptable(p.Settings, kind, live); ok && parent == p.parent.UID() || apply.IsChild(p.Settings, p.parent, live) && p.Watched(live) {
			return live, nil
		}
		if apply.IsChild(p.Settings, p.parent, live) { // somebody has changed the label of its bucket
			stamped, err := p.stamp(ctx, kind, live)
			if err != nil || stamped != nil {
				return stamped, err
			}
		}
	}
	p.store.ForgetUnlabelled(p.parent.UID(), noted.Ref)
	return nil, nil
}
