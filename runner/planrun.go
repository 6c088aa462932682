package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

const (
	// listPage is how many objects a list asks for at once.
	listPage = 500
	// planTries is how often a parent is planned anew because one of its
	// children has changed in the middle.
	planTries = 5
)

// A Change is what an operator would do to one object: a child, or the parent
// itself.
type Change struct {
	// Parent is whose pass would do it.
	Parent types.NamespacedName
	// Object and Type name what would be changed. Those of the parent mean its
	// status and its finalizers.
	Object types.NamespacedName
	Type   resource.Type
	// Verb is "create", "update", "recreate", which deletes the object and
	// creates it once it is gone, or "delete". Of a parent that is being
	// deleted it is "finalize" if the handler's Finalize would be called.
	Verb string
	// Fields say what would change, in the order of their paths. Of a create it
	// is one without a path, with the object as the handler wants it: what the
	// engine adds is left out. A delete and a finalize have none.
	Fields []FieldChange
}

// A FieldChange is a field of a live object that would change.
type FieldChange struct {
	// Path reads like spec.template.spec.containers[name="app"].image. Empty,
	// it means the object as a whole.
	Path string
	// Live is the value it has, Desired the value it would have, as JSON
	// values; nil where there is none. Values of Secrets are "(hidden)".
	Live, Desired any
}

// Plan returns what this build of the operator would do if it ran now: one pass
// over every parent in which nothing is written. It lists the parents and the
// children, calls the handler's Sync for each parent as Run would, and asks the
// API server by dry runs what would become of the answers, so that fields which
// the server or a webhook only writes differently aren't listed. No Event, no
// finalizer, no lease is written, and Finalize isn't called.
//
// What follows only from the state after these changes isn't in the plan. So
// the parent's status is in it only if the children stay as they are. The
// engine's own mark on a child doesn't count as a change: an operator that
// starts on an empty plan may write it.
//
// The order is that of the parents' namespaces and names, and within a parent
// that of the writes. A parent whose pass would fail doesn't keep the others
// from being planned: the error joins what went wrong, naming each parent, and
// the changes are those of all that would be done.
//
// Plan uses opts.RESTConfig and opts.Logger. It needs the rights to list what
// the operator watches, and, as a dry run is authorized like the write itself,
// to create and update its children.
func Plan(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options) ([]Change, error) {
	cfg.DryRun = true
	opts.Metrics = prometheus.NewRegistry()
	r, err := New(cfg, h, opts)
	if err != nil {
		return nil, err
	}
	l, err := r.connect()
	if err != nil {
		return nil, err
	}
	e, err := r.operators[0].newEngine(ctx, l)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, fmt.Errorf("plan: %w", context.Cause(ctx))
	}
	defer e.events.close()
	if err := e.listAll(ctx); err != nil {
		return nil, err
	}
	return e.planAll(ctx)
}

// listAll fills the store once.
func (r *engine) listAll(ctx context.Context) error {
	for _, w := range r.watchers(nil) {
		objects, version, err := r.client.listPages(ctx, w)
		if err != nil {
			return forbidden(w.kind, "list", fmt.Errorf("%s: list: %w", w.kind.Type, err))
		}
		r.store.replace(w.stream, objects, version)
	}
	return nil
}

// listPages lists what a watcher would watch, page by page, newest state.
func (c *client) listPages(ctx context.Context, w *watcher) (objects []*resource.Resource, version string, err error) {
	opts := metav1.ListOptions{LabelSelector: w.selector, Limit: listPage}
	for {
		page, err := c.list(ctx, w.kind, w.stream.Namespace, opts)
		switch {
		case apierrors.IsResourceExpired(err) && opts.Continue != "": // took too long: all at once
			opts.Limit, opts.Continue, objects = 0, "", nil
			continue
		case err != nil:
			return nil, "", err
		}
		for _, item := range page.Items {
			objects = append(objects, item.Resource)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return objects, page.ResourceVersion, nil
		}
	}
}

// parentsInOrder returns every parent held, by namespace and name.
func (r *engine) parentsInOrder() []*resource.Resource {
	var parents []*resource.Resource
	for _, uid := range r.store.allParents() {
		if parent, ok := r.store.parent(uid); ok {
			parents = append(parents, parent)
		}
	}
	slices.SortFunc(parents, compareResources)
	return parents
}

// planAll plans every parent held.
func (r *engine) planAll(ctx context.Context) ([]Change, error) {
	parents := r.parentsInOrder()
	changes, errs := make([][]Change, len(parents)), make([]error, len(parents))
	slots := make(chan struct{}, r.cfg.MaxConcurrentSyncs)
	var wg sync.WaitGroup
	for i, parent := range parents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if changes[i], err = r.planOne(ctx, parent); err != nil {
				errs[i] = fmt.Errorf("%s: %w", refOf(parent), err)
			}
		})
	}
	wg.Wait()
	return slices.Concat(changes...), errors.Join(errs...)
}

// planOne plans a parent, again if a child has changed in the middle.
func (r *engine) planOne(ctx context.Context, parent *resource.Resource) ([]Change, error) {
	for range planTries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		req, ok := r.snapshot(parent.UID())
		if !ok {
			return nil, nil // gone meanwhile
		}
		p := r.newPass(req)
		_, err := p.run(ctx)
		outdated, readErr := p.refresh(ctx)
		if !outdated && !p.outdated {
			return p.would, errors.Join(err, readErr)
		}
	}
	return nil, errors.New("it and its children keep changing; plan again when they have settled")
}

// refresh reads the children that were found to have changed since they were
// listed, and says whether there were any.
func (p *pass) refresh(ctx context.Context) (outdated bool, err error) {
	for _, r := range p.results {
		if !r.await || r.parked {
			continue
		}
		ref := r.action.ref
		held, ok := p.store.object(ref)
		live, err := p.client.get(ctx, r.action.kind, ref.Key)
		switch {
		case apierrors.IsNotFound(err) && ok:
			p.store.observeDeleted(stream{ref.Type, metav1.NamespaceAll}, held)
		case apierrors.IsNotFound(err): // it was there for a moment
		case err != nil:
			return false, fmt.Errorf("%s: read: %w", ref, err)
		case !ok && !p.controls(live):
			continue // someone else's, that is waited for
		case r.action.live != nil && r.action.live.ResourceVersion() == live.ResourceVersion():
			continue // it is waited for
		default:
			p.store.wrote(live)
		}
		outdated = true
	}
	return outdated, nil
}

// controls says whether an object is a child of the parent.
func (p *pass) controls(live *resource.Resource) bool {
	controller := controllerOf(live)
	return controller != nil && controller.UID == p.parent.UID()
}
