package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/textdiff"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An explanation of one parent is read from the API server: the parent, its children, what it
// refers to, and of children that differ who wrote them. Nothing is written, not even in a dry run, so
// what the API server makes of a desired value is judged by managedFields alone.

// Explain reads a parent and its children, asks the handler what it wants, and returns why all of
// it is as it is. known is what the running process says. The engine's configuration must have
// DryRun set, and nothing else may use the engine. If there is no such parent, the error asks whether
// another one is meant.
func (e *Engine) Explain(ctx context.Context, key types.NamespacedName, known explain.Process) (explain.Explanation, error) {
	e.once = true
	if err := e.checkParentKey(key); err != nil {
		return explain.Explanation{}, err
	}
	var x *explaining
	for range planTries {
		var err error
		if x, err = e.lookAt(ctx, key, known); err != nil {
			return explain.Explanation{}, err
		}
		if !x.outdated {
			break
		}
	}
	return explain.Make(x.in), nil
}

// checkParentKey says why there can't be a parent of this name.
func (e *Engine) checkParentKey(key types.NamespacedName) error {
	parent := e.Types.Parent
	switch {
	case parent.Namespaced && key.Namespace == "":
		return fmt.Errorf("%s %s: lacks a namespace; write NAMESPACE/%s", parent.Type.Kind, key.Name, key.Name)
	case !parent.Namespaced && key.Namespace != "":
		return fmt.Errorf("%s %s: has no namespace, since %s is cluster-scoped; write %s alone", parent.Type.Kind, key, parent.Type.Kind, key.Name)
	}
	return nil
}

// An explaining is one look at a parent and its children.
type explaining struct {
	*pass
	in       explain.Input
	outdated bool // an object has changed while it was looked at
}

// lookAt makes one look.
func (e *Engine) lookAt(ctx context.Context, key types.NamespacedName, known explain.Process) (*explaining, error) {
	parent, err := e.client.Get(ctx, e.Types.Parent, key)
	switch {
	case apierror.IsMissing(err, key.Name):
		return nil, e.noParent(ctx, key)
	case err != nil:
		return nil, fmt.Errorf("%s %s: read: %w", e.Types.Parent.Type.Kind, object.KeyText(key), catalog.Forbidden(e.Types.Parent, "get", err))
	}
	e.store.Wrote(parent)
	if err := e.listFamily(ctx, parent); err != nil {
		return nil, err
	}
	req, ok := e.snapshot(parent.UID())
	if !ok {
		return nil, e.noParent(ctx, key)
	}
	x := &explaining{pass: e.newPass(req)}
	x.in = explain.Input{
		Settings: x.Settings, Parent: parent, Process: known, Unselected: e.whyNotSelected(parent),
		Holders: map[object.Ref]explain.Holder{}, Entries: map[object.Ref][]metav1.ManagedFieldsEntry{},
		Outdated: map[object.Ref]plan.Action{}, Ending: map[string]struct{}{},
	}
	if err := x.look(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", object.RefOf(parent), err)
	}
	x.in.Children = x.children
	return x, nil
}

// noParent returns the error about a parent that doesn't exist.
func (e *Engine) noParent(ctx context.Context, key types.NamespacedName) error {
	err := fmt.Errorf("%s %s: not found", e.Types.Parent.Type.Kind, object.KeyText(key))
	var here, elsewhere []string
	for _, l := range e.listsOf(e.Types.Parent) {
		listErr := e.client.EachMetadata(ctx, l.kind, l.namespace, "", func(res *resource.Resource) {
			if res.Namespace() == key.Namespace {
				here = append(here, res.Name())
			}
			elsewhere = append(elsewhere, object.KeyText(res.Key()))
		})
		if listErr != nil {
			return err // who may not list them gets no suggestion
		}
	}
	if near := textdiff.Nearest(key.Name, here); near != "" {
		return fmt.Errorf("%w; did you mean %s?", err, object.KeyText(types.NamespacedName{Namespace: key.Namespace, Name: near}))
	}
	for _, other := range elsewhere {
		if _, name, _ := strings.Cut(other, "/"); name == key.Name {
			return fmt.Errorf("%w; did you mean %s?", err, other)
		}
	}
	if near := textdiff.Nearest(object.KeyText(key), elsewhere); near != "" {
		return fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// whyNotSelected says why the operator doesn't look at a parent, "" if it does.
func (e *Engine) whyNotSelected(parent *resource.Resource) string {
	if namespaces := e.Config.Namespaces; e.Types.Parent.Namespaced && len(namespaces) > 0 && !slices.Contains(namespaces, parent.Namespace()) {
		return fmt.Sprintf("the operator is restricted to other namespaces (%s)", joinNames(namespaces))
	}
	if e.Selects(parent) {
		return ""
	}
	text := fmt.Sprintf("its labels don't match the ParentSelector %q", e.Config.ParentSelector)
	if e.hasOurs(parent) {
		text += "; the operator takes its finalizer off"
	}
	return text
}

// listFamily lists the children of a parent into the store, and notes the unlabelled objects that
// the operator may adopt.
func (e *Engine) listFamily(ctx context.Context, parent *resource.Resource) error {
	selector := labels.Set{e.Config.OwnershipLabel: e.Config.Name, e.Config.TrackingLabel: string(parent.UID())}.String()
	for _, k := range e.Types.Children {
		if k.Unserved {
			continue
		}
		for _, namespace := range e.familyNamespaces(k, parent) {
			children, version, err := e.client.ListPages(ctx, k, namespace, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return fmt.Errorf("%s: list: %w", k.Type, catalog.Forbidden(k, "list", err))
			}
			e.store.Replace(store.Stream{Type: k.Type, Namespace: namespace}, children, version)
			if !k.Child.Adopt && !k.Child.AdoptOffered {
				continue
			}
			if err := e.listUnlabelled(ctx, listOf{k, namespace}); err != nil {
				return catalog.Forbidden(k, "list", err)
			}
		}
	}
	for _, k := range e.Types.Former {
		for _, namespace := range e.familyNamespaces(k, parent) {
			if err := e.listFormer(ctx, listOf{k, namespace}); err != nil {
				return catalog.Forbidden(k, "list", err)
			}
		}
	}
	return nil
}

// familyNamespaces returns the namespaces in which a parent may have children of a type.
func (e *Engine) familyNamespaces(k *catalog.Kind, parent *resource.Resource) []string {
	if k.Namespaced && parent.Namespace() != "" {
		return []string{parent.Namespace()}
	}
	return e.NamespacesOf(k)
}

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
	doubtful = slices.DeleteFunc(doubtful, func(a *plan.Action) bool { return a.Verb != plan.VerbVerify })
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
	found, errs := make([]*metav1.PartialObjectMetadata, len(refs)), make([]error, len(refs))
	x.each(len(refs), func(i int) { found[i], errs[i] = x.client.ManagedFields(ctx, x.Types.Of(refs[i].Type), refs[i].Key) })
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
