package merge

import (
	"bytes"
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// Canonical returns desired without what no comparison looks at: nulls, ignored
// fields, and orders that mean nothing. Two desired objects that differ in nothing
// else have equal canonical objects. The result shares parts with desired.
func (c *Comparison) Canonical(desired map[string]any) map[string]any {
	clean, _ := jsonvalue.NullFree(desired).(map[string]any)
	return canonicalObject(clean, c.root(nil))
}

// canonical returns the canonical form of a value.
func canonical(v any, at place) any {
	if at.schema == nil && len(at.ignore) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		return canonicalObject(v, at)
	case []any:
		return canonicalList(v, at)
	}
	return v
}

// canonicalObject does the same for an object. It leaves out the keys of which
// everything is ignored.
func canonicalObject(object map[string]any, at place) map[string]any {
	out := maps.Clone(object)
	for key, value := range object {
		if at.part.excludes(key) {
			continue
		}
		below := at.child(key)
		if !wants(value, below.ignore) {
			delete(out, key)
			continue
		}
		out[key] = canonical(value, below)
	}
	return out
}

// canonicalList does the same for a list. It leaves out ignored items of keyed lists
// and sets. In a list that is compared whole a null takes the place of such an item.
func canonicalList(list []any, at place) []any {
	form, key := listFormOf(list, at.schema)
	out := make([]any, 0, len(list))
	for i, item := range list {
		below := at.item(item, i)
		switch {
		case wants(item, below.ignore):
			out = append(out, canonical(item, below))
		case form == listWhole:
			out = append(out, nil)
		}
	}
	switch {
	case form == listSet:
		return slices.CompactFunc(sortedBy(out, appendValueText), jsonvalue.Equal)
	case form == listKeyed && at.schema != nil && at.schema.AnyOrder:
		return sortedBy(out, key.appendText)
	}
	return out
}

// sortedBy returns the items of a list sorted by their texts. Items with the same
// text stay in their order.
func sortedBy(list []any, appendText func([]byte, any) []byte) []any {
	type textItem struct {
		text []byte
		item any
	}
	items := make([]textItem, len(list))
	for i, item := range list {
		items[i] = textItem{appendText(nil, item), item}
	}
	slices.SortStableFunc(items, func(a, b textItem) int { return bytes.Compare(a.text, b.text) })
	for i := range items {
		list[i] = items[i].item
	}
	return list
}
