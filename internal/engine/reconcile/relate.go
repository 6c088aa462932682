package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

var errStillRuns = errors.New("an earlier call for this parent hasn't returned")

// KeepRelated keeps the watches of what parents refer to, until ctx ends. It returns when
// its goroutines have ended.
func (e *Engine) KeepRelated(ctx context.Context) {
	if e.related != nil {
		e.related.Run(ctx)
	}
}

// RelatedBroken returns why objects of a related type aren't up to date, nil if they are.
func (e *Engine) RelatedBroken(t resource.Type) error {
	if e.related == nil {
		return nil
	}
	return e.related.Broken(t)
}

// waitingForRelated returns how many parents have no pass before related objects have been
// looked up.
func (e *Engine) waitingForRelated() int {
	if e.related == nil {
		return 0
	}
	return e.related.Waiting()
}

// refer notes what the parent refers to, and shows the handler what there is of that. It
// returns false if not all of it is known yet, or can't be. Without an error, the parent is
// due once it is.
func (p *pass) refer(ctx context.Context) (known bool, err error) {
	if p.related == nil && !p.relates {
		return true, nil
	}
	queries, err := p.references(ctx)
	if err != nil || p.related == nil {
		return err == nil, err
	}
	var found []*resource.Resource
	var changed bool
	if p.once {
		found, err = p.related.ReferNow(ctx, p.parent.UID(), queries)
		known = err == nil
	} else {
		found, known, changed, err = p.related.Refer(p.parent.UID(), queries)
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("related: %w", err)
	case p.servedSince(queries):
		p.queue.Add(p.parent.UID(), schedule.Fresh, "related objects", 0)
		return false, nil
	case !known:
		p.Logger().DebugContext(ctx, "waiting for related objects")
		return false, nil
	}
	if changed {
		p.due.Cause |= schedule.Changed
		p.memory.Stir()
		p.loops.Forgive(p.parent.UID(), false)
	}
	found = p.withFamily(found, p.parent, p.children, queries)
	p.show(func(req *handler.SyncRequest) { req.Related = handler.NewObjects(found...) })
	return true, nil
}

// mayReadEverywhere reports whether related objects of a type may be read in all namespaces, as far as the operator is configured.
func (e *Engine) mayReadEverywhere(t resource.Type) bool {
	return len(e.Config.Namespaces) == 0 || slices.ContainsFunc(e.Config.Related, func(r config.Related) bool { return r.Type == t && r.AnyNamespace })
}

// familyOf returns the UID of an object that is a parent, or of the parent whose child it is, if the engine's own watches tell
// of it.
func (e *Engine) familyOf(res *resource.Resource) (types.UID, bool) {
	settings := e.current.Load()
	switch {
	case res.Type() == e.Config.Parent:
		return res.UID(), settings.Selects(res)
	case !mirrors(settings, res.Type()) || !settings.Watched(res):
		return "", false
	}
	return e.store.OwnerOf(res)
}

// mirrors reports whether the store holds the operator's objects of a type.
func mirrors(s *catalog.Settings, t resource.Type) bool {
	k := s.Types.Of(t)
	return k != nil && !k.Unserved
}

// withFamily returns related objects, but a parent and its children in the states in which these are held. So an own write of them is
// nothing new there, unless it has deleted one, and of another client's the engine's own watches tell.
func (e *Engine) withFamily(related []*resource.Resource, parent *resource.Resource, children []*resource.Resource, queries []relate.Query) []*resource.Resource {
	settings := e.current.Load()
	if queries = slices.DeleteFunc(slices.Clone(queries), func(q relate.Query) bool { return !mirrors(settings, q.Type) }); len(queries) == 0 {
		return related
	}
	family := append([]*resource.Resource{parent}, children...)
	held := make(map[object.Ref]struct{}, len(family))
	for _, res := range family {
		held[object.RefOf(res)] = struct{}{}
	}
	related = slices.DeleteFunc(related, func(res *resource.Resource) bool {
		_, ok := held[object.RefOf(res)]
		return ok
	})
	return append(related, relate.Match(queries, family)...)
}

// servedSince says whether a type is served by now to which queries refer as one that isn't.
func (p *pass) servedSince(queries []relate.Query) bool {
	return slices.ContainsFunc(queries, func(q relate.Query) bool {
		return q.Unserved && !p.Engine.types().RelatedTo(q.Type).Unserved
	})
}

// references returns what the parent refers to. A parent whose references are refused refers
// to nothing any more. While the handler can't say what they are, they stay as they were.
func (p *pass) references(ctx context.Context) ([]relate.Query, error) {
	refs, err := askRelate(ctx, p)
	if err != nil {
		return nil, err
	}
	queries, err := p.resolver.Queries(p.Types, p.parent, refs)
	if err != nil && p.related != nil {
		p.related.Forget(p.parent.UID())
	}
	p.queries = queries
	return queries, err
}

// refersTo says whether the parent refers to an object, which needn't exist. A reference by a
// selector counts: the labels of what doesn't exist aren't known.
func (p *pass) refersTo(ref object.Ref) bool {
	return slices.ContainsFunc(p.queries, func(q relate.Query) bool {
		return q.Type == ref.Type && (q.Name == "" || q.Name == ref.Key.Name) && (q.Namespace == "" || q.Namespace == ref.Key.Namespace)
	})
}

// askRelate asks the handler what the parent refers to. Relate has no context that could tell it of the
// handler's timeout: a call that takes longer is left, and the parent has no other one until it returns.
func askRelate(ctx context.Context, p *pass) ([]handler.Ref, error) {
	if !p.relates {
		return nil, nil
	}
	if p.stuck.relates(p.parent.UID()) {
		return nil, &HandlerError{Method: "Relate", Err: errStillRuns}
	}
	ctx, cancel := p.withTimeout(ctx)
	defer cancel()
	var leave <-chan struct{} // nil: there is no timeout
	var ended chan struct{}
	if p.Config.HandlerTimeout > 0 {
		leave, ended = ctx.Done(), make(chan struct{})
	}
	ask := func(_ context.Context, req *handler.SyncRequest) (*[]handler.Ref, error) {
		if ended != nil {
			defer close(ended)
		}
		refs, err := handler.Relate(p.handler, req.Parent)
		return &refs, err
	}
	p.passes.calls(p.parent.UID(), "Relate")
	defer p.passes.calls(p.parent.UID(), "")
	var refs *[]handler.Ref
	var err error
	if p.client == nil { // see call
		a := answer[[]handler.Ref]{}
		a.ask(ctx, p, "Relate", p.request(), ask)
		refs, err = a.resp, a.err
	} else {
		refs, err = await(ctx, p, "Relate", leave, ask)
	}
	if err != nil {
		if ctx.Err() != nil {
			p.stuck.leave(p.parent.UID(), ended)
		}
		return nil, err
	}
	return *refs, nil
}
