package crd

import (
	"maps"
	"slices"
)

// sorted returns the names of an object's members in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
