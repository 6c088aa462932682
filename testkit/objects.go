package testkit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
)

// A reference is an object's type and key, and where it is served.
type reference struct {
	typ    resource.Type
	key    types.NamespacedName
	client dynamic.ResourceInterface
}

// String returns "Pod namespace/name".
func (r reference) String() string { return describe(r.typ, r.key) }

func describe(t resource.Type, key types.NamespacedName) string {
	if key.Namespace == "" {
		return t.Kind + " " + key.Name
	}
	return t.Kind + " " + key.String()
}

// refer identifies obj; the namespace is filled in.
func (k *Kit) refer(obj any) (reference, error) {
	t, key, err := encode.Identity(obj)
	if err != nil {
		return reference{}, err
	}
	switch {
	case t.APIVersion == "" || t.Kind == "":
		return reference{}, fmt.Errorf("%T %q: apiVersion or kind is missing, and client-go doesn't know the type", obj, key.Name)
	case key.Name == "":
		return reference{}, fmt.Errorf("%s: metadata.name is missing", t.Kind)
	}
	m, err := k.mapping(t)
	if err != nil {
		return reference{}, err
	}
	ref := reference{typ: t, key: key, client: k.client.Resource(m.rest.Resource)}
	if m.ClusterScoped {
		ref.key.Namespace = ""
		return ref, nil
	}
	if key.Namespace == "" {
		ref.key.Namespace = k.Namespace
	}
	ref.client = k.client.Resource(m.rest.Resource).Namespace(ref.key.Namespace)
	return ref, nil
}

// object returns a copy of obj as it is sent, with its type and namespace.
func (k *Kit) object(obj any) (reference, *unstructured.Unstructured, error) {
	ref, err := k.refer(obj)
	if err != nil {
		return ref, nil, err
	}
	content, err := encode.Map(obj)
	if err != nil {
		return ref, nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(ref.typ.GroupVersionKind())
	u.SetNamespace(ref.key.Namespace)
	return ref, u, nil
}

// Create creates obj. A parent without a namespace gets the label by which
// the operator selects it. The status of types with a status subresource
// isn't stored: see UpdateStatus. A kind whose CustomResourceDefinition has just
// been created, by the Kit or anyone else, is awaited, here and in all methods.
func (k *Kit) Create(obj any) {
	k.t.Helper()
	ref, u, err := k.object(obj)
	if err != nil {
		k.t.Fatalf("testkit: create: %v", err)
	}
	isParent := ref.typ == k.config.Parent
	if isParent && k.clusterScoped {
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[testLabel] = k.Namespace
		u.SetLabels(labels)
	}
	u.SetResourceVersion("")
	planned := k.foresee(ref, u)
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	created, err := ref.client.Create(ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		k.t.Fatalf("testkit: create %s: %v", ref, err)
	}
	if isParent {
		k.own.addParent(created.GetUID(), ref.key)
	}
	k.edited(planned, created)
	k.wrote(ref, created, false)
}

// Update replaces the object.
//
// If obj carries a resourceVersion, it is sent as it is, and a conflict fails
// the test. If not, it is taken for what shall be, whatever is there: labels
// and annotations are merged into the live ones (null removes one, in a map),
// finalizers and owner references replace the live ones if obj has any, the
// status stays, and everything else is replaced. A conflict is then tried
// again.
func (k *Kit) Update(obj any) {
	k.t.Helper()
	ref, u, err := k.object(obj)
	if err != nil {
		k.t.Fatalf("testkit: update: %v", err)
	}
	k.replace("update", ref, u, mergeOnto)
}

// UpdateStatus replaces the status of the object by that of obj, through the
// status subresource. A test plays a kubelet or a controller with it. A
// conflict is tried again unless obj carries a resourceVersion.
func (k *Kit) UpdateStatus(obj any) {
	k.t.Helper()
	ref, u, err := k.object(obj)
	if err != nil {
		k.t.Fatalf("testkit: update status: %v", err)
	}
	k.replace("update status", ref, u, func(u, live *unstructured.Unstructured) {
		status, found := u.Object["status"]
		u.Object = live.Object
		if u.Object["status"] = status; !found {
			delete(u.Object, "status")
		}
	}, "status")
}

// replace sends u, or what merge makes of it and the live object if it has no
// resourceVersion.
func (k *Kit) replace(verb string, ref reference, u *unstructured.Unstructured, merge func(u, live *unstructured.Unstructured), subresource ...string) {
	k.t.Helper()
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	exact := u.GetResourceVersion() != ""
	var updated *unstructured.Unstructured
	var planned *planCheck
	err := wait.PollUntilContextCancel(ctx, pollInterval/5, true, func(ctx context.Context) (bool, error) {
		next := u.DeepCopy()
		if !exact || len(subresource) > 0 {
			live, err := ref.client.Get(ctx, ref.key.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			merge(next, live)
			if exact {
				next.SetResourceVersion(u.GetResourceVersion())
			}
		}
		if len(subresource) == 0 {
			planned = k.foresee(ref, next)
		} else {
			k.edits()
		}
		var err error
		updated, err = ref.client.Update(ctx, next, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}, subresource...)
		if apierrors.IsConflict(err) && !exact {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		k.t.Fatalf("testkit: %s %s: %v", verb, ref, err)
	}
	k.edited(planned, updated)
	k.wrote(ref, updated, false)
}

// mergeOnto makes u an update of live, as documented at Update.
func mergeOnto(u, live *unstructured.Unstructured) {
	wanted, _, _ := unstructured.NestedMap(u.Object, "metadata")
	metadata, _, _ := unstructured.NestedMap(live.Object, "metadata")
	for _, field := range []string{"labels", "annotations"} {
		from, _ := wanted[field].(map[string]any)
		onto, _ := metadata[field].(map[string]any)
		if onto == nil {
			onto = map[string]any{}
		}
		for name, value := range from {
			if onto[name] = value; value == nil {
				delete(onto, name)
			}
		}
		metadata[field] = onto
	}
	for _, field := range []string{"finalizers", "ownerReferences"} {
		if list, ok := wanted[field].([]any); ok && len(list) > 0 {
			metadata[field] = list
		}
	}
	u.Object["metadata"] = metadata
	if status, ok := live.Object["status"]; ok {
		u.Object["status"] = status
	} else {
		delete(u.Object, "status")
	}
}

// Delete deletes the object with background propagation; that it doesn't exist
// fails the test. It doesn't wait until the object is gone.
func (k *Kit) Delete(obj any) {
	k.t.Helper()
	ref, err := k.refer(obj)
	if err != nil {
		k.t.Fatalf("testkit: delete: %v", err)
	}
	k.edits()
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	live, err := ref.client.Get(ctx, ref.key.Name, metav1.GetOptions{})
	if err == nil {
		err = ref.client.Delete(ctx, ref.key.Name, metav1.DeleteOptions{
			PropagationPolicy: new(metav1.DeletePropagationBackground),
			Preconditions:     metav1.NewUIDPreconditions(string(live.GetUID())),
		})
	}
	if err != nil {
		k.t.Fatalf("testkit: delete %s: %v", ref, err)
	}
	k.wrote(ref, live, true)
}

// Get returns the object as the API server has it, nil if it doesn't exist.
func (k *Kit) Get(obj any) *resource.Resource {
	k.t.Helper()
	ref, err := k.refer(obj)
	if err != nil {
		k.t.Fatalf("testkit: get: %v", err)
	}
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	live, err := ref.get(ctx)
	if err != nil {
		k.t.Fatalf("testkit: get %s: %v", ref, err)
	}
	return live
}

// get returns nil if the object doesn't exist.
func (r reference) get(ctx context.Context) (*resource.Resource, error) {
	u, err := r.client.Get(ctx, r.key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return resource.New(u)
}
