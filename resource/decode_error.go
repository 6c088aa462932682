package resource

import (
	"fmt"
	"reflect"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/gotype"
)

// decodeError returns the error about an object that can't be decoded into a value of this type. It names the field:
// the errors of types that decode themselves, such as Quantity, don't know where they are.
func (r *Resource) decodeError(err error, into reflect.Type) error {
	for into != nil && into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	path, at := misfit(r.text, into)
	if at == nil || len(path) == 0 {
		return fmt.Errorf("%s: decode into %v: %w", r, into, err)
	}
	return fmt.Errorf("%s: decode into %v: %s: %w", r, into, path, at)
}

// misfit returns the path of the innermost value that can't be decoded into its place in a value of type t, and
// why. The error is nil if value can be decoded.
func misfit(value string, t reflect.Type) (fieldpath.Path, error) {
	if t == nil {
		return nil, nil
	}
	err := kjson.Unmarshal([]byte(value), reflect.New(t).Interface())
	if err == nil {
		return nil, nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if gotype.DecodesItself(t) {
		return nil, err
	}
	within := func(step fieldpath.Step, value string, t reflect.Type) fieldpath.Path {
		path, inner := misfit(value, t)
		if inner == nil {
			return nil
		}
		err = inner
		return append(fieldpath.Path{step}, path...)
	}
	switch t.Kind() {
	case reflect.Struct:
		fields := gotype.Fields(t)
		for m := range members(value) {
			name := unquote(m.key)
			if field, known := fields[name]; known && name != "" {
				if path := within(fieldpath.Field(name), m.value, field); path != nil {
					return path, err
				}
			}
		}
	case reflect.Map:
		for m := range members(value) {
			name := unquote(m.key)
			if path := within(fieldpath.Field(name), m.value, t.Elem()); path != nil && name != "" {
				return path, err
			}
		}
	case reflect.Slice, reflect.Array:
		i := 0
		for item := range items(value) {
			if path := within(fieldpath.Step{Index: i}, item, t.Elem()); path != nil {
				return path, err
			}
			i++
		}
	}
	return nil, err
}
