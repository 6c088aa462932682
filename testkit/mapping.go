package testkit

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A served type is what discovery says of a Type.
type served struct {
	resource.Mapping
	rest *meta.RESTMapping
}

// mapping looks a type up. A type whose CustomResourceDefinition was created a moment ago is
// awaited.
func (k *Kit) mapping(t resource.Type) (served, error) {
	gvk := t.GroupVersionKind()
	m, err := k.cluster.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // a test may have installed the type since the last look
		m, err = k.awaitMapping(gvk)
	}
	if meta.IsNoMatchError(err) {
		if others := k.otherVersions(t); len(others) > 0 {
			return served{}, fmt.Errorf("%s isn't served, but %s is: %w", t, strings.Join(others, ", "), err)
		}
		return served{}, fmt.Errorf("%s isn't served: add its CustomResourceDefinition to ClusterOptions.CRDPaths: %w", t, err)
	}
	if err != nil {
		return served{}, fmt.Errorf("%s: %w", t, err)
	}
	return served{
		Mapping: resource.Mapping{Type: t, Plural: m.Resource.Resource, ClusterScoped: m.Scope.Name() == meta.RESTScopeNameRoot},
		rest:    m,
	}, nil
}

// otherVersions returns the types of the same kind and group that are served.
func (k *Kit) otherVersions(t resource.Type) (out []string) {
	mappings, err := k.cluster.mapper.RESTMappings(t.GroupVersionKind().GroupKind())
	if err != nil {
		return nil // there are none
	}
	for _, m := range mappings {
		out = append(out, resource.TypeFor(m.GroupVersionKind).String())
	}
	return out
}

// awaitMapping asks the API server anew, again and again as long as there is a definition of
// the kind that it is going to serve.
func (k *Kit) awaitMapping(gvk schema.GroupVersionKind) (m *meta.RESTMapping, err error) {
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	waitErr := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		k.cluster.mapper.Reset()
		m, err = k.cluster.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if !meta.IsNoMatchError(err) {
			return true, nil
		}
		coming, listErr := k.isDefined(ctx, gvk)
		return !coming, listErr
	})
	if waitErr != nil {
		return nil, fmt.Errorf("its CustomResourceDefinition: %w", waitErr)
	}
	return m, err
}

// isDefined says whether there is a CustomResourceDefinition by which a kind will be served.
// The error says why one will not.
func (k *Kit) isDefined(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	crds, err := k.client.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for _, item := range crds.Items {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &crd); err != nil {
			return false, err
		}
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind || crd.DeletionTimestamp != nil {
			continue
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
				return false, fmt.Errorf("%s: %s", crd.Name, c.Message)
			}
		}
		for _, version := range crd.Spec.Versions {
			if version.Name == gvk.Version && version.Served {
				return true, nil
			}
		}
	}
	return false, nil
}

//nolint:gochecknoglobals // immutable
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// noteKinds forgets what kinds are served if an object that was written is a
// CustomResourceDefinition.
func (k *Kit) noteKinds(u *unstructured.Unstructured) {
	if resource.TypeFor(u.GroupVersionKind()) == k8s.CustomResourceDefinition {
		k.cluster.mapper.Reset()
	}
}
