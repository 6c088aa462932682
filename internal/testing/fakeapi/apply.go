package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	applyconfigurations "k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Server-side apply is Kubernetes' own, by the package that an API server has it from. Built-in
// types have their schemas. Those of others are deduced, so their lists are atomic.

// fieldManager returns what notes who owns which field of a kind's objects.
func (k *Kind) fieldManager() (*managedfields.FieldManager, error) {
	gvk := k.Type.GroupVersionKind()
	converter := managedfields.NewDeducedTypeConverter()
	if scheme.Scheme.Recognizes(gvk) {
		converter = applyconfigurations.NewTypeConverter(scheme.Scheme)
	}
	fm, err := managedfields.NewDefaultFieldManager(converter, oneVersion{}, noDefaults{}, emptyObjects{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, fmt.Errorf("fakeapi: %s: %w", k.Type, err)
	}
	return fm, nil
}

// applied returns what an object becomes by server-side apply.
func (k *Kind) applied(was *stored, r Request) (map[string]any, error) {
	var patch map[string]any
	if err := yaml.Unmarshal(r.Body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	manager := r.Query.Get("fieldManager")
	if manager == "" {
		required := field.Required(field.NewPath("fieldManager"), "is required for apply patch")
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{required})
	}
	wanted := &unstructured.Unstructured{Object: clone(patch)}
	if uid := string(wanted.GetUID()); uid != "" && uid != was.uid {
		return nil, anotherUID(k, r.Key, uid)
	}
	is, err := k.fields.Apply(&unstructured.Unstructured{Object: was.tree()}, wanted, manager, r.Query.Get("force") == "true")
	if err != nil {
		return nil, answered(err)
	}
	object, ok := is.(*unstructured.Unstructured)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("applied is a %T", is))
	}
	return clone(object.Object), nil
}

// answered is the answer that an error comes to. An object that its type doesn't allow is an error of the server's.
func answered(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
}

// noted notes in an object which fields somebody has set by an update or a creation.
func (k *Kind) noted(was, is map[string]any, manager string) map[string]any {
	if k.fields == nil {
		return is
	}
	live := &unstructured.Unstructured{Object: was}
	if was == nil {
		live = emptyObject(k.Type.GroupVersionKind())
	}
	out, ok := k.fields.UpdateNoErrors(live, &unstructured.Unstructured{Object: is}, manager).(*unstructured.Unstructured)
	if !ok {
		return is
	}
	return clone(out.Object)
}

// managerOf returns who a request is by.
func managerOf(r Request) string {
	if manager := r.Query.Get("fieldManager"); manager != "" {
		return manager
	}
	name, _, _ := strings.Cut(r.UserAgent, "/")
	return name
}

// somebody is the manager of what is no client's.
const somebody = "somebody"

// mustExist is the answer to an apply with a UID where there is no such object.
func mustExist(k *Kind, r Request) error {
	return apierrors.NewGenericServerResponse(http.StatusConflict, "patch", k.groupResource(), r.Key.Name, "uid mismatch: no existing object was found", 0, false)
}

// A oneVersion converts between the versions of a type of which there is one.
type oneVersion struct{}

func (oneVersion) Convert(in, out, _ any) error {
	from, ok1 := in.(*unstructured.Unstructured)
	to, ok2 := out.(*unstructured.Unstructured)
	if !ok1 || !ok2 {
		return fmt.Errorf("fakeapi: %T can't become %T", in, out)
	}
	to.Object = from.Object
	return nil
}

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

type emptyObjects struct{}

func (emptyObjects) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return emptyObject(gvk), nil
}

func emptyObject(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(gvk)
	return out
}
