package jsonvalue

import (
	"maps"
	"slices"
)

// Equal says whether two JSON values are equal. An int64 and a float64 are equal if
// they are the same number. Values of Go types that JSON doesn't have are never equal.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case int64:
		switch y := b.(type) {
		case int64:
			return x == y
		case float64:
			return SameNumber(x, y)
		}
	case float64:
		switch y := b.(type) {
		case int64:
			return SameNumber(y, x)
		case float64:
			return x == y
		}
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, Equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, Equal)
	}
	return false
}

// SameNumber says whether an integer and a float are the same number. The answer is
// exact even for integers that a float64 can't represent.
func SameNumber(i int64, f float64) bool {
	return f >= -1<<63 && f < 1<<63 && int64(f) == i && float64(int64(f)) == f
}
