package runner

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/probe"
	"github.com/roperator/roperator/resource"
)

// offlineCatalog is what discovery would find, as far as that is known without
// an API server. Lists of custom resources are compared as where there is no
// schema.
func offlineCatalog(cfg config.Operator) (*catalog, error) {
	c := &catalog{byType: map[resource.Type]*kind{}}
	for i, child := range append([]config.Child{{Type: cfg.Parent}}, cfg.Children...) {
		m, _ := offlineMapping(cfg, child.Type)
		k := &kind{
			Type: child.Type, child: child, namespaced: !m.ClusterScoped, status: true,
			gvr: child.Type.GroupVersionKind().GroupVersion().WithResource(m.Plural),
		}
		k.builtin = listkeys.For(k.Type)
		k.comparison.schema = k.builtin
		if err := k.parseIgnored(); err != nil {
			return nil, err
		}
		c.byType[child.Type] = k
		if i == 0 {
			c.parent = k
		} else {
			c.children = append(c.children, k)
		}
	}
	c.sort()
	return c, checkScopes(c, cfg)
}

// An offlinePlanner is the engine up to the first request. It is a
// probe.Planner.
type offlinePlanner struct {
	cfg     config.Operator
	handler handler.Handler
	types   *catalog
}

func (o *operator) offlinePlanner() (*offlinePlanner, error) {
	types, err := offlineCatalog(o.cfg)
	if err != nil {
		return nil, err
	}
	return &offlinePlanner{cfg: o.cfg, handler: o.handler, types: types}, nil
}

// engine returns one that knows nothing yet and can't make a request.
func (o *offlinePlanner) engine() *engine {
	e := newEngine(o.cfg, o.handler, o.types, nil, nil, slog.New(slog.DiscardHandler))
	e.metrics = newMetrics()
	return e
}

func (o *offlinePlanner) Namespaced(t resource.Type) (namespaced, guessed bool) {
	m, guessed := offlineMapping(o.cfg, t)
	return !m.ClusterScoped, guessed
}

func (o *offlinePlanner) Finalizer() string {
	if s := newSettings(o.cfg, o.handler, o.types); s.finalizes {
		return s.finalizer
	}
	return ""
}

func (o *offlinePlanner) Adopt(child map[string]any, parent *resource.Resource) {
	s := newSettings(o.cfg, o.handler, o.types)
	meta := object(child, "metadata")
	labels := object(meta, "labels")
	labels[s.cfg.TrackingLabel], labels[s.cfg.OwnershipLabel] = string(parent.UID()), s.cfg.Name
	meta["ownerReferences"] = append(foreignOwners(meta, parent.UID()), s.ownerReference(parent))
}

func (o *offlinePlanner) Plan(ctx context.Context, req *handler.SyncRequest) (*probe.Planned, error) {
	p := o.engine().newPass(req)
	if req.Parent.IsDeleting() {
		return p.planFinalize(ctx)
	}
	resp, err := p.callSync(ctx)
	if err != nil {
		return nil, err
	}
	var desired []*desiredChild
	if !resp.KeepChildren {
		if desired, err = p.desire(p.parent, resp.Children, p.memory); err != nil {
			return nil, err
		}
	}
	planned := p.plan(planInput{parent: p.parent, desired: desired, keepAll: resp.KeepChildren, children: p.children, memory: p.memory})
	out := &probe.Planned{}
	early, late := splitDeletes(planned.deletes)
	for _, a := range slices.Concat(early, planned.writes, late) {
		if step, ok := p.foresee(&a); ok {
			out.Actions = append(out.Actions, step)
		}
	}
	return out, p.planStatus(out, resp.Status)
}

// planFinalize plans a pass over a parent that is being deleted.
func (p *pass) planFinalize(ctx context.Context) (*probe.Planned, error) {
	if !p.finalizes || !slices.Contains(p.parent.Finalizers(), p.finalizer) {
		return &probe.Planned{}, nil
	}
	resp, err := p.callFinalize(ctx)
	if err != nil {
		return nil, err
	}
	out := &probe.Planned{Finalized: resp.Finalized}
	if resp.Finalized {
		return out, nil
	}
	return out, p.planStatus(out, resp.Status)
}

func (p *pass) planStatus(out *probe.Planned, status any) error {
	live, _ := p.parent.Field("status")
	if isNil(status) {
		out.Status = live
		return nil
	}
	want, err := p.wantedStatus(status, false)
	if err != nil {
		return fmt.Errorf("%s: status: %w", refOf(p.parent), err)
	}
	out.Status, out.WritesStatus = want, !reflect.DeepEqual(want, nullFree(live))
	return nil
}

// foresee says what an action does, false if nothing that a user would see:
// the mark is the engine's own, and a difference from a state that the server
// was sent before is what the server made of it.
func (s *settings) foresee(a *action) (probe.Action, bool) {
	out := probe.Action{Verb: string(a.verb), Type: a.ref.Type}
	switch a.verb {
	case verbMark, verbVerify:
		return out, false
	case verbDelete:
		out.Object = a.live.Unstructured().Object
		return out, true
	case verbApply:
		out.Verb = string(verbUpdate)
	}
	out.Object, _ = nullFree(a.want.object).(map[string]any)
	if a.verb == verbUpdate || a.verb == verbApply {
		out.Object = a.kind.comparison.without(a.settledPaths()).merge(a.liveObject(), a.want.object, a.former)
	}
	for _, d := range a.diffs {
		out.Fields = append(out.Fields, probe.Difference{Path: d.Path, Live: d.Live, Desired: d.Desired})
	}
	return out, true
}

func (o *offlinePlanner) Compare(t resource.Type, live, desired map[string]any) []probe.Difference {
	return o.types.differences(t, live, desired)
}
