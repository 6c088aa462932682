package testkit

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/encode"
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
		if encodesItself(v.Type()) {
			return
		}
		v = v.Elem()
	}
	if !v.IsValid() || encodesItself(v.Type()) {
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
		name, embedded := jsonName(field)
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

// jsonName returns the name of a struct's field in JSON, empty if the field isn't encoded.
// embedded says that the fields of the field are encoded in its place.
func jsonName(field reflect.StructField) (name string, embedded bool) {
	tag := field.Tag.Get("json")
	name, options, _ := strings.Cut(tag, ",")
	switch {
	case tag == "-":
		return "", false
	case strings.Contains(options, "inline"), field.Anonymous && name == "" && deref(field.Type).Kind() == reflect.Struct:
		return "", true
	case !field.IsExported():
		return "", false
	case name == "":
		return field.Name, false
	}
	return name, false
}

// deref returns what a pointer's type points to, any other type as it is.
func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// encodesItself says whether values of a type are encoded by a method of their own, so that
// nothing is known of their fields.
func encodesItself(t reflect.Type) bool {
	for _, own := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(own) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	return false
}
