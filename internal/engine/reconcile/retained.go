package reconcile

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Children to be retained go with their parent, for ever, if the operator doesn't know of them when it lets the
// parent go: the answer to a creation was lost and the watch is late, or somebody has changed their labels. So the
// API server is asked for them by their owner before.

// retainedUnseen returns, by their metadata, the children to be retained that the pass doesn't know of. A pass over a
// parent that lives finds such a child when it would create it. The error of a type that isn't served says that there is one
// all the same, or that nobody knows.
func (p *pass) retainedUnseen(ctx context.Context) (found []*resource.Resource, err error) {
	known := make(map[types.UID]struct{}, len(p.children))
	for _, child := range p.children {
		known[child.UID()] = struct{}{}
	}
	for _, k := range p.Types.Children {
		if !k.Child.Retain {
			continue
		}
		unseen, err := p.ownedUnseen(ctx, k, known)
		switch {
		case err != nil:
			return nil, err
		case k.Unserved && len(unseen) > 0:
			return nil, fmt.Errorf("%s: it isn't let go, since %s is to be retained: %w", object.RefOf(p.parent), object.RefOf(unseen[0]), k.NotServed())
		}
		found = append(found, unseen...)
	}
	return found, nil
}

// ownedUnseen returns the children of a type that aren't among known, and adds them. It also asks for a type that isn't
// served, since discovery doesn't tell of a type either while the API server that serves it starts.
func (p *pass) ownedUnseen(ctx context.Context, k *catalog.Kind, known map[types.UID]struct{}) (unseen []*resource.Resource, err error) {
	asked := k
	if k.Unserved {
		asked = p.Presumed(k)
	}
	lists := p.listsOf(asked)
	if p.Types.Parent.Namespaced { // owner references don't cross namespaces
		lists = []listOf{{asked, p.parent.Namespace()}}
	}
	for _, l := range lists {
		owned, err := p.owned.of(ctx, p.parent.UID(), l, p.client.EachMetadata)
		switch {
		case k.Unserved && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)):
			continue // there is no such type, and so no right for it
		case err != nil:
			return nil, catalog.Forbidden(asked, "list", fmt.Errorf("%s: list: %w", k.Type, err))
		}
		for _, res := range owned {
			if _, twice := known[res.UID()]; !twice && !res.IsDeleting() && plan.IsMadeFor(p.Settings, p.parent, res) {
				known[res.UID()] = struct{}{}
				unseen = append(unseen, res)
			}
		}
	}
	return unseen, nil
}

// ownedLists are lists of the objects that parents own. Passes that ask for the same list at the same time share
// it: where many parents are deleted at once, it would be made for each of them. It is safe for concurrent use.
type ownedLists struct {
	mu struct {
		sync.Mutex
		next    map[ownedKey]*ownedList // those that haven't begun
		running map[ownedKey]*ownedList
	}
}

// An ownedKey says which objects a list is of.
type ownedKey struct {
	typ       resource.Type
	namespace string
}

// An ownedList is one list, for the parents that have asked for it before it began.
type ownedList struct {
	after *ownedList                         // the one that has to end before; nil: none
	by    map[types.UID][]*resource.Resource // what each of the parents owns
	err   error
	ended chan struct{}
}

// of returns the metadata of the objects in a list that a parent controls, as they are after the call has begun. each makes
// the list.
func (o *ownedLists) of(ctx context.Context, parent types.UID, l listOf, each listEach) ([]*resource.Resource, error) {
	key := ownedKey{l.kind.Type, l.namespace}
	list, joined := o.join(key, parent)
	if joined {
		select {
		case <-list.ended:
			return list.by[parent], list.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer o.end(key, list)
	if list.after != nil {
		select {
		case <-list.after.ended:
		case <-ctx.Done():
		}
	}
	o.begin(key, list)
	list.err = each(ctx, l.kind, l.namespace, "", func(res *resource.Resource) {
		if c := object.ControllerOf(res); c != nil {
			if owned, asked := list.by[c.UID]; asked {
				list.by[c.UID] = append(owned, res)
			}
		}
	})
	return list.by[parent], list.err
}

// A listEach lists the metadata of the objects of a type in a namespace that a selector matches, and calls do for each.
type listEach func(ctx context.Context, k *catalog.Kind, namespace, selector string, do func(*resource.Resource)) error

// join returns the list that comes next. joined says that another pass makes it.
func (o *ownedLists) join(key ownedKey, parent types.UID) (list *ownedList, joined bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if list, joined = o.mu.next[key]; !joined {
		list = &ownedList{after: o.mu.running[key], by: map[types.UID][]*resource.Resource{}, ended: make(chan struct{})}
		if o.mu.next == nil {
			o.mu.next, o.mu.running = map[ownedKey]*ownedList{}, map[ownedKey]*ownedList{}
		}
		o.mu.next[key] = list
	}
	list.by[parent] = nil
	return list, joined
}

// begin closes a list to passes that come later.
func (o *ownedLists) begin(key ownedKey, list *ownedList) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.next, key)
	o.mu.running[key] = list
}

// end gives a list to the passes that wait for it.
func (o *ownedLists) end(key ownedKey, list *ownedList) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.running[key] == list {
		delete(o.mu.running, key)
	}
	list.after = nil
	close(list.ended)
}
