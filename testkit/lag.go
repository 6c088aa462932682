package testkit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/resource"
)

// lag describes the first object of which the operator's store doesn't hold
// what the API server has now, "" if there is none. It lists whatever the
// operator watches, and what its parents refer to.
func (k *Kit) lag(engine *reconcile.Engine) (string, error) {
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	living := map[types.UID]bool{}
	parents := map[types.NamespacedName]bool{}
	for t, selector := range k.watched() {
		items, err := k.list(ctx, t, selector)
		if err != nil {
			return "", fmt.Errorf("%s: list: %w", t, err)
		}
		for i := range items {
			item := &items[i]
			key := types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
			held, ok := engine.Observed(t, key)
			if !ok || older(held, item.ResourceVersion) {
				return fmt.Sprintf("%s at resourceVersion %s", describe(t, key), item.ResourceVersion), nil
			}
			living[item.UID] = true
			if t == k.config.Parent {
				parents[key] = true
			}
		}
	}
	if missing := k.outlived(engine, living, parents); missing != "" {
		return missing, nil
	}
	return k.lagOfRelated(ctx, engine)
}

// lagOfRelated is lag for the objects that parents refer to.
func (k *Kit) lagOfRelated(ctx context.Context, engine *reconcile.Engine) (string, error) {
	listed := map[relate.Query]map[string][]metav1.PartialObjectMetadata{}
	for q, known := range engine.Related() {
		items, err := k.listRelated(ctx, q, listed)
		if err != nil {
			return "", fmt.Errorf("%s: list: %w", q, err)
		}
		if missing := lagOf(q.Type, items, known); missing != "" {
			return missing, nil
		}
	}
	return "", nil
}

// listRelated returns the metadata of the objects that a query is for. Of names it lists the namespace, once
// for all of them: listed has these objects by name.
func (k *Kit) listRelated(ctx context.Context, q relate.Query, listed map[relate.Query]map[string][]metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
	if q.Name == "" {
		return k.listIn(ctx, q.Type, q.Namespace, q.Options())
	}
	all := q.Everything()
	if listed[all] == nil {
		items, err := k.listIn(ctx, all.Type, all.Namespace, all.Options())
		if err != nil {
			return nil, err
		}
		listed[all] = map[string][]metav1.PartialObjectMetadata{}
		for _, item := range items {
			listed[all][item.Name] = append(listed[all][item.Name], item)
		}
	}
	return listed[all][q.Name], nil
}

// lagOf describes the first of these objects that isn't known as it is, or that is known and isn't among them.
func lagOf(t resource.Type, items []metav1.PartialObjectMetadata, known []*resource.Resource) string {
	held := map[types.UID]*resource.Resource{}
	for _, res := range known {
		held[res.UID()] = res
	}
	for i := range items {
		key := types.NamespacedName{Namespace: items[i].Namespace, Name: items[i].Name}
		if res := held[items[i].UID]; res == nil || older(res, items[i].ResourceVersion) {
			return fmt.Sprintf("%s at resourceVersion %s", describe(t, key), items[i].ResourceVersion)
		}
		delete(held, items[i].UID)
	}
	for _, res := range held {
		return "the deletion of " + describe(t, res.Key())
	}
	return ""
}

// watched returns the label selector by which the operator watches each type.
func (k *Kit) watched() map[resource.Type]string {
	selectors := map[resource.Type]string{k.config.Parent: k.config.ParentSelector}
	ours := labels.Set{k.config.OwnershipLabel: k.config.Name}.String() + "," + k.config.TrackingLabel
	for _, child := range k.config.Children {
		selectors[child.Type] = ours
	}
	return selectors
}

// list returns the metadata of the objects of a type that are selected where
// the operator watches. There are none of a type that isn't served.
func (k *Kit) list(ctx context.Context, t resource.Type, selector string) ([]metav1.PartialObjectMetadata, error) {
	m, err := k.mapping(t)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	namespace := k.Namespace
	if m.ClusterScoped || k.clusterScoped {
		namespace = metav1.NamespaceAll
	}
	return k.listIn(ctx, t, namespace, metav1.ListOptions{LabelSelector: selector})
}

// listIn returns the metadata of objects of a type in a namespace (empty: in all). There are
// none of a type that isn't served.
func (k *Kit) listIn(ctx context.Context, t resource.Type, namespace string, opts metav1.ListOptions) ([]metav1.PartialObjectMetadata, error) {
	m, err := k.mapping(t)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	client := metadata.ResourceInterface(k.metas.Resource(m.rest.Resource))
	if namespace != "" {
		client = k.metas.Resource(m.rest.Resource).Namespace(namespace)
	}
	found, err := client.List(ctx, opts)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}

// outlived describes an object that the operator's store holds although the API
// server doesn't any more, among the Kit's own parents and the children of
// these parents.
func (k *Kit) outlived(engine *reconcile.Engine, living map[types.UID]bool, parents map[types.NamespacedName]bool) string {
	for _, own := range k.own.parents() {
		held, ok := engine.Observed(k.config.Parent, own.key)
		if ok && held.UID() == own.uid && !living[own.uid] {
			return "the deletion of " + describe(k.config.Parent, own.key)
		}
	}
	for key := range parents {
		snapshot, ok := engine.Snapshot(key)
		if !ok {
			continue
		}
		for child := range snapshot.Children.All() {
			if !living[child.UID()] {
				return "the deletion of " + describe(child.Type(), child.Key())
			}
		}
	}
	return ""
}
