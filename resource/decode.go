package resource

import (
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// Field returns the value at the path, which leads through objects, decoded as
// in unstructured.Unstructured: a string, bool, int64 (float64 beyond its
// range and for fractions), map[string]any, []any, or nil for null. It returns
// false if there is no such field. The value is the caller's own. Only the
// value itself is decoded.
func (r *Resource) Field(path ...string) (any, bool) {
	raw := r.text
	for _, name := range path {
		var ok bool
		if raw, ok = member(raw, name); !ok {
			return nil, false
		}
	}
	value, err := jsonvalue.Decode(raw, number)
	return value, err == nil // else a number that not even a float64 can hold
}

// Decode decodes the object into a pointer, to a typed object for example.
// Field names are case-sensitive and unknown fields ignored, as in client-go. An error
// names the object, and the field whose value doesn't fit.
func (r *Resource) Decode(into any) error {
	if err := kjson.Unmarshal([]byte(r.text), into); err != nil {
		return r.decodeError(err, reflect.TypeOf(into))
	}
	return nil
}

// As decodes the object into a new T, a struct or a pointer to one. See
// [Resource.Decode].
func As[T any](r *Resource) (T, error) {
	var into T
	err := r.Decode(&into)
	return into, err
}

// Unstructured returns a fresh copy of the object, without
// metadata.managedFields. It is empty if the object holds a number that not
// even a float64 can.
func (r *Resource) Unstructured() *unstructured.Unstructured {
	value, err := jsonvalue.Decode(r.text, number)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		object = map[string]any{}
	}
	return &unstructured.Unstructured{Object: object}
}

// number returns an int64 if it can, else a float64, as apimachinery does.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// MarshalJSON returns the object as compact JSON without
// metadata.managedFields, keys in the order in which the API server sent them.
// The bytes are the caller's own. There is never an error.
func (r *Resource) MarshalJSON() ([]byte, error) {
	return []byte(r.text), nil
}

// The functions below read JSON that has been validated and has no spaces.

// member returns the value of an object's member; the last one counts, as in
// encoding/json.
func member(object, name string) (value string, found bool) {
	for m := range members(object) {
		if m.is(name) {
			value, found = m.value, true
		}
	}
	return value, found
}

// A rawMember is a member of a JSON object, as it is written: the key without
// quotes.
type rawMember struct {
	key, value string
	at         int // where the value begins, in the object
}

// text returns the value if it is a string, else the empty string.
func (m rawMember) text() string {
	if m.value[0] != '"' {
		return ""
	}
	return unquote(m.value[1 : len(m.value)-1])
}

func (m rawMember) is(name string) bool {
	if m.key == name {
		return true
	}
	return strings.IndexByte(m.key, '\\') >= 0 && unquote(m.key) == name
}

// members yields the members of an object, none for another value.
func members(object string) func(yield func(rawMember) bool) {
	return func(yield func(rawMember) bool) {
		if object[0] != '{' {
			return
		}
		for i := 1; object[i] != '}'; {
			if object[i] == ',' {
				i++
			}
			colon := jsonvalue.Skip(object, i)
			end := jsonvalue.Skip(object, colon+1)
			if !yield(rawMember{key: object[i+1 : colon-1], value: object[colon+1 : end], at: colon + 1}) {
				return
			}
			i = end
		}
	}
}

// items yields the items of an array, none for another value.
func items(array string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if array[0] != '[' {
			return
		}
		for i := 1; array[i] != ']'; {
			if array[i] == ',' {
				i++
			}
			end := jsonvalue.Skip(array, i)
			if !yield(array[i:end]) {
				return
			}
			i = end
		}
	}
}

// unquote returns the value of a string that is given without its quotes.
func unquote(inner string) string { return jsonvalue.Unquote(inner) }
