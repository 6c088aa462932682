package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource/k8s"
)

// look finds out what the operator wants, and what is in the way of it. The error says what
// can't be read; what is wrong with the parent or its handler is a part of the explanation.
func (x *explaining) look(ctx context.Context) error {
	for _, child := range x.former.take(x.parent.UID()) {
		x.in.Former = append(x.in.Former, child.ref)
	}
	if x.in.Unselected != "" {
		return nil
	}
	if err := x.lookAtRelated(ctx); err != nil {
		return err
	}
	if _, err := x.showUnlabelled(ctx); err != nil {
		return err
	}
	switch {
	case x.in.Err != nil:
		return nil //nolint:nilerr // it is part of what is explained
	case x.parent.IsDeleting():
		x.lookAtTeardown()
		return nil
	}
	x.foreseeFinalizers(x.WantedFinalizers)
	for _, c := range x.foreseen {
		x.in.Metadata = append(x.in.Metadata, c.Fields...)
	}
	resp, err := x.callSync(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil && (resp == nil || !deletesChildren(err)):
		x.in.Err = err
		return nil
	case err != nil:
		x.in.Err, resp = err, &handler.SyncResponse{Status: resp.Status}
	}
	return x.decide(ctx, resp)
}

// lookAtRelated reads what the parent refers to.
func (x *explaining) lookAtRelated(ctx context.Context) error {
	if known, err := x.refer(ctx); !known || err != nil {
		if apierrors.IsForbidden(err) || ctx.Err() != nil {
			return err
		}
		x.in.Err = err
		return nil
	}
	refs, err := askRelate(ctx, x.pass)
	if err != nil {
		return nil //nolint:nilerr // refer has met it
	}
	from := x.resolver.Origins(x.Types, x.parent, refs)
	for _, q := range x.queries {
		r := explain.Related{
			APIVersion: q.Type.APIVersion, Kind: q.Type.Kind, Namespace: q.Namespace, Name: q.Name, Selector: q.Selector,
			From: from[q], Found: []explain.Object{}, NotServed: q.Unserved,
		}
		for _, res := range relate.Match([]relate.Query{q}, slices.Collect(x.req.Related.All())) {
			r.Found = append(r.Found, explain.Object{APIVersion: res.Type().APIVersion, Kind: res.Type().Kind, Namespace: res.Namespace(), Name: res.Name()})
		}
		x.in.Related = append(x.in.Related, r)
	}
	return nil
}

// lookAtTeardown finds out what becomes of the children of a parent that is being deleted.
func (x *explaining) lookAtTeardown() {
	if x.Finalizes || !x.Holds || !x.hasOurs(x.parent) || plan.Orphans(x.parent) {
		return
	}
	t := plan.TearDown(x.Settings, x.input())
	x.in.Teardown = &t
}

// decide finds out what a pass would do about a response.
func (x *explaining) decide(ctx context.Context, resp *handler.SyncResponse) error {
	desired, planned, err := x.plan(resp)
	if err != nil {
		x.in.Err = err
		return nil //nolint:nilerr // it is part of what is explained
	}
	learned, err := x.judge(ctx, &planned)
	if err != nil {
		return err
	}
	if learned {
		if desired, planned, err = x.plan(resp); err != nil {
			x.in.Err = err
			return nil //nolint:nilerr // it is part of what is explained
		}
	}
	x.in.Desired, x.in.Planned, x.in.Kept = desired, &planned, resp.KeepChildren
	if err := x.lookAtNames(ctx, planned.Writes); err != nil {
		return err
	}
	if err := x.lookAtOutdated(ctx, desired); err != nil {
		return err
	}
	if err := x.lookAtWriters(ctx, &planned); err != nil {
		return err
	}
	return x.lookAtStatus(ctx, resp, desired, &planned)
}

// judge finds out by managedFields which children differ only by what the API server made of the
// desired values. It says whether that may change the plan.
func (x *explaining) judge(ctx context.Context, planned *plan.Plan) (learned bool, err error) {
	var doubtful []*plan.Action
	for i := range planned.Writes {
		doubtful = append(doubtful, &planned.Writes[i])
	}
	for i := range planned.Queued {
		doubtful = append(doubtful, &planned.Queued[i].Action)
	}
	doubtful = slices.DeleteFunc(doubtful, func(a *plan.Action) bool { return a.Ask() != plan.AskFields })
	if err := x.readEntries(ctx, refsOfActions(doubtful)); err != nil {
		return false, err
	}
	for _, a := range doubtful {
		found := plan.Judge(a, x.in.Entries[a.Ref], x.Config.Name)
		x.memory.Suppose(a.Want, a.Live, found.Rest)
	}
	return len(doubtful) > 0, nil
}

// lookAtNames reads the objects that have the names of children to be created, and the namespaces
// in which nothing can be created.
func (x *explaining) lookAtNames(ctx context.Context, writes []plan.Action) error {
	executor := &apply.Executor{Settings: x.Settings, Client: x.client, Store: x.store, Parent: x.parent, Owner: x.pass}
	for i := range writes {
		a := &writes[i]
		if a.Verb != plan.VerbCreate {
			continue
		}
		x.lookAtNamespace(ctx, a.Ref.Key.Namespace)
		live, err := x.client.Get(ctx, a.Kind, a.Ref.Key)
		switch {
		case apierror.IsMissing(err, a.Ref.Key.Name):
			continue
		case err != nil:
			return fmt.Errorf("%s: read: %w", a.Ref, catalog.Forbidden(a.Kind, "get", err))
		}
		prospect, why, err := executor.Look(ctx, a, live)
		switch {
		case apierrors.IsConflict(err):
			x.outdated = true
			continue
		case err != nil:
			return fmt.Errorf("%s: read: %w", a.Ref, err)
		}
		what := map[apply.Prospect]explain.HolderKind{apply.LeftAlone: explain.HolderForeign, apply.Taken: explain.HolderAdopted, apply.Awaited: explain.HolderAwaited}
		x.in.Holders[a.Ref] = explain.Holder{What: what[prospect], Why: why}
	}
	return nil
}

// lookAtNamespace finds out whether a namespace is being deleted. Who may not read it isn't told.
func (x *explaining) lookAtNamespace(ctx context.Context, namespace string) {
	if namespace == "" {
		return
	}
	if _, known := x.in.Ending[namespace]; known {
		return
	}
	k := &catalog.Kind{Type: k8s.Namespace, GVR: corev1.SchemeGroupVersion.WithResource("namespaces")}
	if live, err := x.client.Get(ctx, k, types.NamespacedName{Name: namespace}); err == nil && live.IsDeleting() {
		x.in.Ending[namespace] = struct{}{}
	}
}

// lookAtOutdated finds the children of the strategy OnDelete that differ.
func (x *explaining) lookAtOutdated(ctx context.Context, desired []*plan.Desired) error {
	hint := 0
	for _, d := range desired {
		live := plan.Live(x.children, d.Ref(), &hint)
		if live == nil || live.IsDeleting() || d.Kept() || !plan.WaitsForDelete(d) || d.Object() == nil {
			continue
		}
		if _, differs := plan.Outdated(x.Settings, d, live, nil); !differs {
			continue
		}
		if err := x.readEntries(ctx, []object.Ref{d.Ref()}); err != nil {
			return err
		}
		if a, differs := plan.Outdated(x.Settings, d, live, x.in.Entries[d.Ref()]); differs {
			x.in.Outdated[d.Ref()] = a
		}
	}
	return nil
}

// lookAtWriters reads who has written the children that are to be written.
func (x *explaining) lookAtWriters(ctx context.Context, planned *plan.Plan) error {
	var differ []object.Ref
	add := func(a *plan.Action) {
		if a.Live != nil && len(a.Diffs) > 0 {
			differ = append(differ, a.Ref)
		}
	}
	for i := range planned.Writes {
		add(&planned.Writes[i])
	}
	for i := range planned.Queued {
		add(&planned.Queued[i].Action)
	}
	return x.readEntries(ctx, differ)
}

// readEntries reads the managedFields of children, unless they are known.
func (x *explaining) readEntries(ctx context.Context, refs []object.Ref) error {
	refs = slices.DeleteFunc(refs, func(ref object.Ref) bool {
		_, known := x.in.Entries[ref]
		return known
	})
	found, errs := each(x.Engine, len(refs), func(i int) (*metav1.PartialObjectMetadata, error) {
		return x.client.ManagedFields(ctx, x.Types.Of(refs[i].Type), refs[i].Key)
	})
	for i, ref := range refs {
		live, held := x.store.Object(ref)
		switch {
		case apierror.IsMissing(errs[i], ref.Key.Name):
			x.outdated = true
			continue
		case errs[i] != nil:
			return fmt.Errorf("%s: read: %w", ref, catalog.Forbidden(x.Types.Of(ref.Type), "get", errs[i]))
		case held && live.ResourceVersion() != found[i].ResourceVersion:
			x.outdated = true
		}
		x.in.Entries[ref] = found[i].ManagedFields
	}
	return nil
}

// lookAtStatus finds out how the parent's status would change. It isn't known while children are to
// be written.
func (x *explaining) lookAtStatus(ctx context.Context, resp *handler.SyncResponse, desired []*plan.Desired, planned *plan.Plan) error {
	if len(planned.Writes)+len(planned.Deletes)+len(planned.Refused) > 0 || !x.Types.Parent.HasStatus {
		return nil
	}
	standing := x.standOffline(planned, desired, resp, 0, x.in.Err)
	want, err := x.desireStatus(resp.Status)
	if err != nil {
		x.in.Err = errors.Join(x.in.Err, err)
		return nil
	}
	if standing != nil {
		want = x.orPresent(want)
	}
	if want == nil || want.kept && standing == nil {
		return nil
	}
	_, waits := x.waitTexts(planned)
	live, _ := x.parent.Field("status")
	live = jsonvalue.NullFree(live)
	if made := x.completeStatus(want, live, completion{incomplete: len(waits) > 0, standing: standing, now: time.Now()}); !jsonvalue.Equal(made, live) {
		x.in.Status = plan.StatusEffects(live, made)
	}
	if len(x.in.Status) == 0 {
		return nil
	}
	meta, err := x.client.ManagedFields(ctx, x.Types.Parent, x.parent.Key())
	if err != nil {
		return fmt.Errorf("read: %w", catalog.Forbidden(x.Types.Parent, "get", err))
	}
	x.outdated = x.outdated || meta.ResourceVersion != x.parent.ResourceVersion()
	x.in.Entries[object.RefOf(x.parent)] = meta.ManagedFields
	return nil
}

func refsOfActions(actions []*plan.Action) []object.Ref {
	out := make([]object.Ref, 0, len(actions))
	for _, a := range actions {
		out = append(out, a.Ref)
	}
	return out
}
