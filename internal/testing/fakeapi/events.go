package fakeapi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxNote is how many bytes the note of an Event may have.
const maxNote = 1024

// checkNew says what is wrong with a new object.
func (k *Kind) checkNew(name string, object map[string]any) error {
	if err := k.Schema.check(k, name, object); err != nil {
		return err
	}
	return k.checkEvent(name, object)
}

// checkEvent says what is wrong with a new Event, as the API server does of those of events.k8s.io/v1. It says nothing
// of objects of other kinds.
func (k *Kind) checkEvent(name string, object map[string]any) error {
	if k.Type != Events().Type {
		return nil
	}
	var list field.ErrorList
	for _, limit := range []struct {
		name string
		max  int
	}{{"reportingController", 316}, {"reportingInstance", 128}, {"action", 128}, {"reason", 128}} {
		switch value := text(object, limit.name); {
		case value == "":
			list = append(list, field.Required(field.NewPath(limit.name), ""))
		case len(value) > limit.max:
			list = append(list, field.Invalid(field.NewPath(limit.name), "", fmt.Sprintf("can have at most %d characters", limit.max)))
		}
	}
	if len(text(object, "note")) > maxNote {
		list = append(list, field.Invalid(field.NewPath("message"), "", fmt.Sprintf("can have at most %d characters", maxNote)))
	}
	if kind := text(object, "type"); kind != corev1.EventTypeNormal && kind != corev1.EventTypeWarning {
		list = append(list, field.Invalid(field.NewPath("type"), "", "has invalid value: "+kind))
	}
	if len(list) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.Type.GroupVersionKind().GroupKind(), name, list)
}
