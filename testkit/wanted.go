package testkit

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/gotype"
)

// wantedObject returns an object that a test wants as JSON values, without what the test
// doesn't set: a typed object is encoded with zeros where a field has no omitempty, such as
// status and resources. In a map, or in anything else that isn't a struct, all is set.
func wantedObject(obj any) (map[string]any, error) {
	encoded, err := encode.Map(obj)
	if err != nil {
		return nil, err
	}
	inner, _ := encode.Inner(obj)
	dropUnset(reflect.ValueOf(inner), encoded)
	return encoded, nil
}

// dropUnset deletes from encoded, which is v in JSON, the fields of structs in v that have
// their zero value, at any depth. A pointer to zero is set.
func dropUnset(v reflect.Value, encoded any) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if gotype.EncodesItself(v.Type()) {
			return
		}
		v = v.Elem()
	}
	if !v.IsValid() || gotype.EncodesItself(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if fields, ok := encoded.(map[string]any); ok {
			dropUnsetFields(v, fields)
		}
	case reflect.Slice, reflect.Array:
		items, _ := encoded.([]any)
		for i := range min(len(items), v.Len()) {
			dropUnset(v.Index(i), items[i])
		}
	case reflect.Map:
		fields, ok := encoded.(map[string]any)
		if !ok || v.Type().Key().Kind() != reflect.String {
			return
		}
		for _, key := range v.MapKeys() {
			dropUnset(v.MapIndex(key), fields[key.String()])
		}
	}
}

func dropUnsetFields(v reflect.Value, fields map[string]any) {
	for field, value := range v.Fields() {
		name, embedded := gotype.JSONName(field)
		switch {
		case field.Type == reflect.TypeFor[metav1.TypeMeta](), name == "" && !embedded:
			continue // the type is filled in if it isn't set
		case embedded:
			dropUnset(value, fields)
		case value.IsZero():
			delete(fields, name)
		default:
			dropUnset(value, fields[name])
			if left, ok := fields[name].(map[string]any); ok && len(left) == 0 && value.Kind() == reflect.Struct {
				delete(fields, name)
			}
		}
	}
}
