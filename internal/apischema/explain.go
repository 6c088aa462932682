package apischema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roperator/roperator/internal/gotype"
	"github.com/roperator/roperator/internal/textdiff"
)

// An explainer finds out where JSON values don't fit a Go type.
type explainer struct {
	silent bool // no values in messages
	found  []Problem
}

func (e *explainer) add(path, format string, args ...any) {
	e.found = append(e.found, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// value compares a value with a type. Null fits any type: it is the same as nothing.
func (e *explainer) value(t reflect.Type, v any, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil:
		return
	case gotype.DecodesItself(t):
		e.leaf(t, v, path)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if object, ok := v.(map[string]any); ok {
			e.object(t, object, path)
			return
		}
	case reflect.Map:
		if object, ok := v.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(object)) {
				e.value(t.Elem(), object[key], path+"["+key+"]")
			}
			return
		}
	case reflect.Slice:
		if items, ok := v.([]any); ok {
			for i, item := range items {
				e.value(t.Elem(), item, fmt.Sprintf("%s[%d]", path, i))
			}
			return
		}
	}
	e.leaf(t, v, path)
}

// object compares the members of an object with the fields of a struct.
func (e *explainer) object(t reflect.Type, object map[string]any, path string) {
	fields := gotype.Fields(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := join(path, name)
		if field, ok := fields[name]; ok {
			e.value(field, object[name], at)
			continue
		}
		meant := textdiff.Nearest(name, slices.Sorted(maps.Keys(fields)))
		if meant == "" {
			e.add(at, "unknown field")
		} else {
			e.add(at, "unknown field (%s?)", join(path, meant))
		}
	}
}

// leaf decodes a value of which no parts are looked at.
func (e *explainer) leaf(t reflect.Type, v any, path string) {
	text, err := json.Marshal(v)
	if err == nil {
		err = utiljson.Unmarshal(text, reflect.New(t).Interface())
	}
	if err == nil {
		return
	}
	has := e.described(v)
	if gotype.DecodesItself(t) {
		e.add(path, "wants %s, not %s%s", wording(t.Name()), has, e.reason(err))
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		e.add(path, "wants true or false, not %s", has)
	case reflect.Float32, reflect.Float64:
		e.add(path, "wants a number, not %s", has)
	case reflect.String:
		e.add(path, "wants a string, not %s", has)
	case reflect.Map, reflect.Struct:
		e.add(path, "wants an object, not %s", has)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			e.add(path, "wants a string in base64, not %s", has)
		} else {
			e.add(path, "wants a list, not %s", has)
		}
	default:
		e.add(path, "wants an integer (%s), not %s", t.Kind(), has)
	}
}

// wording names a type that decodes itself.
func wording(name string) string {
	switch name {
	case "IntOrString":
		return "an integer or a string"
	case "MicroTime":
		return "a time"
	}
	return "a " + strings.ToLower(name)
}

// reason returns what a type's own decoder says.
func (e *explainer) reason(err error) string {
	if e.silent {
		return ""
	}
	return ": " + err.Error()
}

// maxShown is how much of a text is shown.
const maxShown = 40

// described says what a value is.
func (e *explainer) described(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		switch {
		case e.silent:
			return "this string"
		case len(v) > maxShown:
			return fmt.Sprintf("%q…", strings.ToValidUTF8(v[:maxShown], ""))
		}
		return fmt.Sprintf("the string %q", v)
	case bool:
		return fmt.Sprint(v)
	}
	if e.silent {
		return "this number"
	}
	return fmt.Sprintf("%v", v)
}

// join returns the path of an object's member.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
