package fakeapi

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
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

// validated is complete for a request, which says what unknown fields come to.
func (k *Kind) validated(r Request, object map[string]any) (completed map[string]any, warnings []string, err error) {
	level := r.Query.Get("fieldValidation")
	var complaints []string
	if level != metav1.FieldValidationIgnore && (k.reader != nil || k.Schema != nil) && (r.Verb == "create" || r.Verb == "update") {
		complaints = duplicates(r.Body)
	}
	completed, unknown, err := k.complete(object)
	if err != nil && r.Verb == "patch" {
		return nil, nil, badPatch(r, err.Error())
	}
	if err != nil {
		return nil, nil, err
	}
	complaints = append(complaints, unknown...)
	switch {
	case len(complaints) == 0 || level == metav1.FieldValidationIgnore:
		return completed, nil, nil
	case level == metav1.FieldValidationStrict:
		text := "strict decoding error: " + strings.Join(complaints, ", ")
		if r.Verb == "patch" {
			return nil, nil, badPatch(r, text)
		}
		return nil, nil, k.unreadable(text)
	}
	return completed, complaints, nil
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

// duplicates says which fields are there twice.
func duplicates(body []byte) (out []string) {
	var object map[string]any
	strict, _ := strictjson.UnmarshalStrict(body, &object) // what is no JSON object is refused elsewhere
	for _, one := range strict {
		out = append(out, one.Error())
	}
	return out
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
