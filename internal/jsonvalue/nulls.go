package jsonvalue

import (
	"maps"
	"slices"
)

// NullFree returns a JSON value without the members of objects that are null. Null
// items of lists stay. NullFree returns v itself if there is nothing to leave out.
// It never changes v, and the result may share parts with v.
func NullFree(v any) any {
	clean, _ := withoutNulls(v)
	return clean
}

// NullFreeList does the same as NullFree for a list.
func NullFreeList(list []any) []any {
	clean, _ := listWithoutNulls(list)
	return clean
}

// withoutNulls returns a value without null members, and whether it differs from v.
func withoutNulls(v any) (clean any, changed bool) {
	switch old := v.(type) {
	case map[string]any:
		return objectWithoutNulls(old)
	case []any:
		if list, changed := listWithoutNulls(old); changed { // to put a list into an interface costs an allocation
			return list, true
		}
	}
	return v, false
}

func objectWithoutNulls(object map[string]any) (clean map[string]any, changed bool) {
	clean = object
	for key, old := range object {
		value, stripped := withoutNulls(old)
		if !stripped && old != nil {
			continue
		}
		if !changed {
			clean, changed = maps.Clone(object), true
		}
		if value == nil {
			delete(clean, key)
		} else {
			clean[key] = value
		}
	}
	return clean, changed
}

func listWithoutNulls(list []any) (clean []any, changed bool) {
	clean = list
	for i, old := range list {
		item, stripped := withoutNulls(old)
		if !stripped {
			continue
		}
		if !changed {
			clean, changed = slices.Clone(list), true
		}
		clean[i] = item
	}
	return clean, changed
}
