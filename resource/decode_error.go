package resource

import (
	"fmt"
	"iter"
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
	for step, in := range valuesIn(value, t) {
		if path, why := misfit(in.value, in.into); why != nil {
			return append(fieldpath.Path{step}, path...), why
		}
	}
	return nil, err
}

// An inner is a value within another one, and the type that it is decoded into.
type inner struct {
	value string
	into  reflect.Type
}

// valuesIn yields the values within a value that is decoded into type t, but for those of which no path can tell.
func valuesIn(value string, t reflect.Type) iter.Seq2[fieldpath.Step, inner] {
	return func(yield func(fieldpath.Step, inner) bool) {
		switch t.Kind() {
		case reflect.Struct, reflect.Map:
			var fields map[string]reflect.Type
			if t.Kind() == reflect.Struct {
				fields = gotype.Fields(t)
			}
			for m := range members(value) {
				name := unquote(m.key)
				into := fields[name]
				if t.Kind() == reflect.Map {
					into = t.Elem()
				}
				if name != "" && into != nil && !yield(fieldpath.Field(name), inner{m.value, into}) {
					return
				}
			}
		case reflect.Slice, reflect.Array:
			i := 0
			for item := range items(value) {
				if !yield(fieldpath.Step{Index: i}, inner{item, t.Elem()}) {
					return
				}
				i++
			}
		}
	}
}
