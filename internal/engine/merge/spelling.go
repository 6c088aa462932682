package merge

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/roperator/roperator/internal/listkeys"
)

// Values that mean the same: quantities by their amount, and a zero value that a built-in Go type drops, which equals none. Of a custom
// resource, a field that its schema prunes equals none.

// sameScalar reports whether two scalars mean the same though they are spelled differently, as 1000m and 1.
func sameScalar(live, desired any, schema *listkeys.Node) bool {
	if !isQuantity(schema) || live == nil || desired == nil {
		return false
	}
	a, ok := quantityOf(live)
	if !ok {
		return false
	}
	b, ok := quantityOf(desired)
	return ok && a.Cmp(b) == 0
}

func quantityOf(v any) (resource.Quantity, bool) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// canonicalQuantity returns the one spelling of a quantity, and whether it differs from v.
func canonicalQuantity(v any) (any, bool) {
	q, ok := quantityOf(v)
	if !ok {
		return v, false
	}
	q, err := resource.ParseQuantity(q.String()) // 0.5 is written as it was read until it is read again
	if err != nil {
		return v, false
	}
	if text := q.String(); text != v {
		return text, true
	}
	return v, false
}

// equalsNone reports whether a desired value of a field equals none, since the Go type of the struct drops it.
func equalsNone(v any, of *listkeys.Node, field string) bool {
	return of.DropsZero(field) && isZero(v, of.Field(field))
}

func isZero(v any, schema *listkeys.Node) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for key, value := range v {
			if !equalsNone(value, schema, key) {
				return false
			}
		}
		return true
	}
	return false
}
