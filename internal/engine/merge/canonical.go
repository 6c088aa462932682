package merge

import (
	"bytes"
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// Canonical returns desired without what no comparison looks at: nulls, ignored
// fields, and orders that mean nothing. Two desired objects that differ in nothing
// else have equal canonical objects. The result shares parts with desired, and is
// desired itself if that is canonical.
func (c *Comparison) Canonical(desired map[string]any) map[string]any {
	clean, _ := jsonvalue.NullFree(desired).(map[string]any)
	object, _ := canonicalObject(clean, c.root(nil))
	return object
}

// canonical returns the canonical form of a value, and whether it differs from v.
func canonical(v any, at place) (form any, changed bool) {
	if at.schema == nil && len(at.ignore) == 0 {
		return v, false
	}
	switch v := v.(type) {
	case map[string]any:
		return canonicalObject(v, at)
	case []any:
		return canonicalList(v, at)
	}
	return v, false
}

// canonicalObject does the same for an object. It leaves out the keys of which
// everything is ignored.
func canonicalObject(object map[string]any, at place) (out map[string]any, changed bool) {
	out = object
	own := func() {
		if !changed {
			out, changed = maps.Clone(object), true
		}
	}
	for key, value := range object {
		if at.part.excludes(key) || len(at.ignore) == 0 && !isNested(value) {
			continue
		}
		below := at.child(key)
		if !wants(value, below.ignore) {
			own()
			delete(out, key)
		} else if form, differs := canonical(value, below); differs {
			own()
			out[key] = form
		}
	}
	return out, changed
}

// isNested says whether a value is an object or a list.
func isNested(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// canonicalList does the same for a list. It leaves out ignored items of keyed lists
// and sets. In a list that is compared whole a null takes the place of such an item.
func canonicalList(list []any, at place) (out []any, changed bool) {
	form, key := listFormOf(list, at.schema)
	out = make([]any, 0, len(list))
	for i, item := range list {
		below := at.item(item, i)
		switch {
		case wants(item, below.ignore):
			item, differs := canonical(item, below)
			out, changed = append(out, item), changed || differs
		case form == listWhole:
			out, changed = append(out, nil), true
		default:
			changed = true
		}
	}
	switch {
	case form == listSet:
		return slices.CompactFunc(sortedBy(out, appendValueText), jsonvalue.Equal), true
	case form == listKeyed && at.schema != nil && at.schema.AnyOrder:
		return sortedBy(out, key.appendText), true
	case !changed:
		return list, false
	}
	return out, true
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
