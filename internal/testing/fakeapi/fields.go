package fakeapi

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// complete returns an object as its type has it, and which of its fields the type doesn't know. The
// object may be changed.
func (k *Kind) complete(object map[string]any) (completed map[string]any, unknown []string, err error) {
	switch {
	case k.reader != nil:
		completed, unknown, err = k.reader.Read(object)
		if err != nil {
			return nil, nil, k.unreadable(err.Error())
		}
		return completed, unknown, nil
	case k.Schema != nil:
		return object, k.Schema.complete(object), nil
	}
	return object, nil, nil
}

// completed is complete for what is being written. It says what unknown fields come to.
func (k *Kind) completed(w *writing, object map[string]any) (map[string]any, error) {
	r := w.request
	completed, unknown, err := k.complete(object)
	if err != nil && r != nil && r.Verb == "patch" {
		return nil, badPatch(*r, err.Error())
	}
	if err != nil {
		return nil, err
	}
	w.complaints = append(w.complaints, unknown...)
	if r == nil || k.reader == nil && k.Schema == nil {
		w.complaints = nil // of the others nothing is known
	}
	if len(w.complaints) == 0 {
		return completed, nil
	}
	switch text := "strict decoding error: " + strings.Join(w.complaints, ", "); r.Query.Get("fieldValidation") {
	case metav1.FieldValidationIgnore:
		w.complaints = nil
	case metav1.FieldValidationStrict:
		if r.Verb == "patch" {
			return nil, badPatch(*r, text)
		}
		return nil, k.unreadable(text)
	}
	return completed, nil
}

// badPatch refuses a patch of which comes what its type doesn't allow.
func badPatch(r Request, text string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(r.Body), text)})
}

// updated makes of an object what an update of another makes of it, and refuses a change of what can't be
// changed.
func (k *Kind) updated(name string, was, is map[string]any) error {
	if k.reader == nil {
		return nil
	}
	k.reader.Update(was, is)
	if list := k.reader.Frozen(was, is); len(list) > 0 {
		return apierrors.NewInvalid(k.Type.GroupVersionKind().GroupKind(), name, list)
	}
	return nil
}

func (k *Kind) unreadable(text string) error {
	gvk := k.Type.GroupVersionKind()
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", gvk.Kind, gvk.Version, gvk.Kind, text))
}

// warn adds warnings to an answer.
func warn(resp *http.Response, warnings []string) *http.Response {
	for _, text := range warnings {
		resp.Header.Add("Warning", fmt.Sprintf("299 - %q", text))
	}
	return resp
}
