package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/roperator/roperator/resource"
)

const (
	cleanupTimeout = 5 * time.Minute // for whatever a test has made
	removeAtOnce   = 8
)

// remove deletes what the Kit's operator and the test have left, finalizers
// or not, and the namespace, unless it is to stay. It waits for nothing:
// without kube-controller-manager a namespace never goes.
func (k *Kit) remove() error {
	ctx, cancel := timeout(cleanupTimeout)
	defer cancel()
	var errs []error
	wanted := []resource.Type{k.config.Parent}
	for _, child := range k.config.Children {
		wanted = append(wanted, child.Type)
	}
	for _, t := range wanted {
		if err := k.removeAll(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t, err))
		}
	}
	if os.Getenv(keepVariable) != keepNamespaces {
		errs = append(errs, ignoreGone(k.clients.CoreV1().Namespaces().Delete(ctx, k.Namespace, metav1.DeleteOptions{})))
	}
	return errors.Join(errs...)
}

// removeAll deletes the objects of a type in the namespace, and those anywhere
// that belong to the Kit's parents.
func (k *Kit) removeAll(ctx context.Context, t resource.Type) error {
	if k.config.Parent == (resource.Type{}) {
		return nil // the operator never got as far as having a configuration
	}
	m, err := k.mapping(t)
	if meta.IsNoMatchError(err) {
		return nil // nothing is served, so nothing is left
	}
	if err != nil {
		return err
	}
	all := k.client.Resource(m.rest.Resource)
	var selections []*unstructured.UnstructuredList
	list := func(client dynamic.ResourceInterface, selector string) error {
		found, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			selections = append(selections, found)
		}
		return err
	}
	if !m.ClusterScoped {
		err = list(all.Namespace(k.Namespace), "")
	}
	if err == nil && k.clusterScoped {
		selector := testLabel + "=" + k.Namespace
		if t != k.config.Parent {
			selector = k.childSelector()
		}
		if selector != "" {
			err = list(all, selector)
		}
	}
	errs := []error{ignoreGone(err)} // the type may not be served any more
	for _, selection := range selections {
		errs = append(errs, removeEach(ctx, all, selection.Items))
	}
	return errors.Join(errs...)
}

// removeEach deletes objects, several at a time.
func removeEach(ctx context.Context, all dynamic.NamespaceableResourceInterface, items []unstructured.Unstructured) error {
	errs := make([]error, len(items))
	// When ctx ends, each request that is left still says so.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), removeAtOnce, len(items), func(i int) {
		errs[i] = removeObject(ctx, all, &items[i])
	})
	return errors.Join(errs...)
}

// childSelector selects the children of the parents that the Kit has created.
func (k *Kit) childSelector() string {
	requirement := metav1.LabelSelectorRequirement{Key: k.config.TrackingLabel, Operator: metav1.LabelSelectorOpIn}
	for _, parent := range k.own.parents() {
		requirement.Values = append(requirement.Values, string(parent.uid))
	}
	if len(requirement.Values) == 0 {
		return ""
	}
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}})
}

func removeObject(ctx context.Context, all dynamic.NamespaceableResourceInterface, u *unstructured.Unstructured) error {
	client := dynamic.ResourceInterface(all)
	if u.GetNamespace() != "" {
		client = all.Namespace(u.GetNamespace())
	}
	if len(u.GetFinalizers()) > 0 {
		_, err := client.Patch(ctx, u.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if ignoreGone(err) != nil {
			return err
		}
	}
	return ignoreGone(client.Delete(ctx, u.GetName(), metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground), GracePeriodSeconds: new(int64(0)),
	}))
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // something else was faster
	}
	return err
}
