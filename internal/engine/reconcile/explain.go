package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/textdiff"
	"github.com/roperator/roperator/resource"
)

// An explanation of one parent is read from the API server: the parent, its children, what it
// refers to, and of children that differ who wrote them. Nothing is written, not even in a dry run, so
// what the API server makes of a desired value is judged by managedFields alone.

// Explain reads a parent and its children, asks the handler what it wants, and returns why all of
// it is as it is. known is what the running process says. The engine's configuration must have
// DryRun set, and nothing else may use the engine. If there is no such parent, the error asks whether
// another one is meant.
func (e *Engine) Explain(ctx context.Context, key types.NamespacedName, known explain.Process) (found explain.Explanation, err error) {
	defer e.recovered(ctx, &err, "explaining panicked", "namespace", key.Namespace, "name", key.Name)
	e.once = true
	if err := e.checkParentKey(ctx, key); err != nil {
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
func (e *Engine) checkParentKey(ctx context.Context, key types.NamespacedName) error {
	parent := e.Types.Parent
	switch {
	case parent.Namespaced && key.Namespace == "":
		return e.noParent(ctx, key, "lacks a namespace; write NAMESPACE/"+key.Name)
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
		return nil, e.noParent(ctx, key, "not found")
	case err != nil:
		return nil, fmt.Errorf("%s %s: read: %w", e.Types.Parent.Type.Kind, object.KeyText(key), catalog.Forbidden(e.Types.Parent, "get", err))
	}
	e.store.Read(parent)
	if err := e.listFamily(ctx, parent); err != nil {
		return nil, err
	}
	req, ok := e.snapshot(parent.UID())
	if !ok {
		return nil, e.noParent(ctx, key, "not found")
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

// noParent returns the error about a key that isn't a parent's, and why.
func (e *Engine) noParent(ctx context.Context, key types.NamespacedName, why string) error {
	err := fmt.Errorf("%s %s: %s", e.Types.Parent.Type.Kind, object.KeyText(key), why)
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
