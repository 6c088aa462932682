package apischema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roperator/roperator/internal/gotype"
)

// unmet returns the demands that a decoded object doesn't meet. The API server sees no more of
// an object than this: it can't tell what is missing from what is zero.
func (c *Checker) unmet(object runtime.Object, creation bool) []Problem {
	w := walker{table: c.table, creation: creation}
	w.value(reflect.ValueOf(object), "", nil)
	return w.found
}

// A walker looks for unmet demands.
type walker struct {
	table    *Table
	creation bool
	found    []Problem
}

// value looks into a value at path. via are the fields on the way to it.
func (w *walker) value(v reflect.Value, path string, via []string) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || gotype.DecodesItself(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		w.fields(v, modelOf(v), path, via)
	case reflect.Slice:
		for i := range v.Len() {
			w.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), via)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			w.value(v.MapIndex(key), path+"["+key.String()+"]", via)
		}
	}
}

// modelOf returns the name of a struct's schema, empty if it has none.
func modelOf(v reflect.Value) string {
	if named, ok := reflect.TypeAssert[interface{ OpenAPIModelName() string }](v); ok {
		return named.OpenAPIModelName()
	}
	return ""
}

func (w *walker) fields(v reflect.Value, model, path string, via []string) {
	for field, value := range v.Fields() {
		name, embedded := gotype.JSONName(field)
		switch {
		case embedded:
			w.fields(value, model, path, via)
			continue
		case name == "", path == "" && (name == "metadata" || name == "status"):
			continue // metadata is the engine's, and a server takes no status along with an object
		}
		at := join(path, name)
		demand := w.table.Models[model][name]
		if w.creation && demand.Required && !within(via, demand.RequiredExcept) && isMissing(value) {
			w.found = append(w.found, Problem{at, "must be set"})
			continue
		}
		if len(demand.Enum) > 0 && !within(via, demand.EnumExcept) {
			w.enum(value, demand.Enum, at)
		}
		w.value(value, at, append(slices.Clip(via), FieldName(model, name)))
	}
}

// within says whether a way leads through one of some fields.
func within(via, fields []string) bool {
	return slices.ContainsFunc(via, func(field string) bool { return slices.Contains(fields, field) })
}

// isMissing says whether an API server sees nothing.
func isMissing(v reflect.Value) bool {
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

// enum compares a text, or each of a list, with the values that it may have.
func (w *walker) enum(v reflect.Value, values []string, path string) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			w.enum(v.Index(i), values, fmt.Sprintf("%s[%d]", path, i))
		}
	case v.Kind() == reflect.String && v.Len() > 0 && !slices.Contains(values, v.String()):
		w.found = append(w.found, Problem{path, fmt.Sprintf("%q isn't one of %s (of Kubernetes %s)", v, strings.Join(values, ", "), w.table.Kubernetes)})
	}
}
