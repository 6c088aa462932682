package sample

import (
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// A ByteSource makes decisions, and draws values by them, from the input of a fuzzer.
// The same input gives the same values. A ByteSource is not safe for concurrent use.
type ByteSource struct {
	Data []byte // the input that is left; once it is empty, every decision is 0
}

// Below returns a number from 0 to n-1. n must be positive, and at most 256 for each
// number to be possible.
func (s *ByteSource) Below(n int) int {
	if len(s.Data) == 0 {
		return 0
	}
	b := s.Data[0]
	s.Data = s.Data[1:]
	return int(b) % n
}

// fieldName draws one of the first n names of fields. There are few of them, so that
// objects drawn apart from each other have some in common. Each leads to another kind
// of schema.
func (s *ByteSource) fieldName(n int) string {
	names := [fieldNames]string{"keyed", "set", "whole", "map", "union", "env", "ports", "free", "name", "port", "protocol", "value", "mounts", "atomic", "selector"}
	return names[s.Below(n)]
}

// fieldNames is the number of names that fieldName knows.
const fieldNames = 15

// Value draws a JSON value of any type, in which objects and lists are nested up to
// depth times.
func (s *ByteSource) Value(depth int) any {
	kinds := 9
	if depth <= 0 {
		kinds = 6
	}
	switch s.Below(kinds) {
	case 0:
		return nil
	case 1:
		return []string{"a", "b", "TCP", "UDP", ""}[s.Below(5)]
	case 2:
		return int64(s.Below(3))
	case 3:
		return float64(s.Below(3)) / 2
	case 4:
		return s.Below(2) == 0
	case 5:
		return map[string]any{}
	case 6:
		return s.object(depth - 1)
	}
	return s.list(depth - 1)
}

// object draws an object with up to four fields.
func (s *ByteSource) object(depth int) map[string]any {
	object := map[string]any{}
	for range s.Below(5) {
		name := s.fieldName(fieldNames)
		object[name] = s.field(name, depth)
	}
	return object
}

// field draws the value of a field. Mostly it has the type that the schema of the
// field asks for.
func (s *ByteSource) field(name string, depth int) any {
	if s.Below(12) == 0 {
		return s.Value(depth)
	}
	switch name {
	case "keyed", "env", "ports", "whole", "mounts":
		return s.list(depth - 1)
	case "set":
		return s.Scalars()
	case "map", "union", "atomic", "selector":
		if depth > 0 {
			return s.object(depth - 1)
		}
		return map[string]any{}
	case "free":
		return s.Value(depth)
	}
	return []any{"a", "b", int64(1), 1.0, "UDP", nil}[s.Below(6)]
}

// Scalars draws a list of up to three scalars.
func (s *ByteSource) Scalars() []any {
	list := []any{}
	for range s.Below(4) {
		list = append(list, []any{"a", "b", "c", int64(1), nil}[s.Below(5)])
	}
	return list
}

// list draws a list of up to three items, most of them objects with keys.
func (s *ByteSource) list(depth int) []any {
	list := []any{}
	for range s.Below(4) {
		if s.Below(12) == 0 || depth < 0 {
			list = append(list, s.Value(depth))
			continue
		}
		item := s.object(depth)
		if s.Below(6) > 0 {
			item["name"] = []any{"a", "b", "c"}[s.Below(3)]
			item["port"] = []any{int64(1), 1.0, int64(2)}[s.Below(3)]
		}
		list = append(list, item)
	}
	return list
}

// Root draws a Kubernetes object. If like isn't nil, the object is in half of the
// cases a changed copy of like.
func (s *ByteSource) Root(like map[string]any) map[string]any {
	object := map[string]any{"apiVersion": "v1", "kind": "Fuzz"}
	if like != nil && s.Below(2) == 0 {
		object = s.change(runtime.DeepCopyJSON(like)).(map[string]any)
	}
	if s.Below(2) == 0 {
		object["spec"] = s.Value(4)
	}
	for range s.Below(3) {
		name := s.fieldName(fieldNames)
		object[name] = s.field(name, 3)
	}
	if s.Below(3) == 0 {
		object["status"] = s.Value(1)
	}
	meta := map[string]any{"name": "x", "uid": []any{"u", "v"}[s.Below(2)]}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		switch {
		case s.Below(2) == 0:
		case s.Below(10) == 0:
			meta[name] = s.Value(1)
		case name == "finalizers":
			meta[name] = s.Scalars()
		case name == "ownerReferences":
			meta[name] = []any{map[string]any{"uid": []any{"o", "p"}[s.Below(2)], "name": "x"}}
		default:
			meta[name] = map[string]any{"a": []any{"a", "b", nil}[s.Below(3)], s.fieldName(5): "c"}
		}
	}
	if object["metadata"] = meta; s.Below(20) == 0 {
		object["metadata"] = s.Value(1)
	}
	return object
}

// change draws a changed copy of a value. It may change v itself.
func (s *ByteSource) change(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch s.Below(8) {
			case 0:
				delete(v, key)
			case 1:
				v[key] = s.field(key, 2)
			default:
				v[key] = s.change(v[key])
			}
		}
		return v
	case []any:
		out := []any{}
		for _, item := range v {
			switch s.Below(8) {
			case 0:
			case 1:
				out = append([]any{s.change(item)}, out...)
			case 2:
				out = append(out, s.object(1), item)
			default:
				out = append(out, s.change(item))
			}
		}
		return out
	}
	return v
}

// RandomDecisions returns an input for a ByteSource, of 50 to 449 bytes.
func RandomDecisions(r *rand.Rand) []byte {
	data := make([]byte, 50+r.IntN(400))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}
