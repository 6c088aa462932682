// Package gotype tells how Go types are encoded in JSON, for what looks at typed objects and
// their JSON side by side.
package gotype

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// JSONName returns the name of a struct's field in JSON, empty if the field isn't encoded.
// embedded says that the fields of the field are encoded in its place.
func JSONName(field reflect.StructField) (name string, embedded bool) {
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

// Fields returns the types of a struct's fields by their names in JSON, those of embedded
// structs among them.
func Fields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, embedded := JSONName(field)
		switch {
		case embedded:
			for name, inner := range Fields(deref(field.Type)) {
				if _, outer := out[name]; !outer {
					out[name] = inner
				}
			}
		case name != "":
			out[name] = field.Type
		}
	}
	return out
}

// deref returns what a pointer's type points to, any other type as it is.
func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// EncodesItself says whether values of a type are encoded by a method of their own, so that
// nothing is known of their fields.
func EncodesItself(t reflect.Type) bool {
	return has(t, reflect.TypeFor[json.Marshaler]()) || has(t, reflect.TypeFor[encoding.TextMarshaler]())
}

// DecodesItself says whether values of a type are decoded by a method of their own.
func DecodesItself(t reflect.Type) bool {
	return has(t, reflect.TypeFor[json.Unmarshaler]()) || has(t, reflect.TypeFor[encoding.TextUnmarshaler]())
}

// has says whether values of a type, or pointers to them, have the methods of an interface.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(methods)
}
