package merge

import (
	"bytes"
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// Canonical returns desired without what no comparison looks at: nulls, ignored
// fields, orders that mean nothing, spellings of one value, zero values that equal none, and
// fields that the API server prunes. Two desired objects that differ in nothing
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
	switch old := v.(type) {
	case map[string]any:
		return canonicalObject(old, at)
	case []any:
		if list, changed := canonicalList(old, at); changed { // to put a list into an interface costs an allocation
			return list, true
		}
	default:
		if isQuantity(at.schema) {
			return canonicalQuantity(v)
		}
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
		if at.part.excludes(key) {
			continue
		}
		if equalsNone(value, at.schema, key) || at.schema.Prunes(key) {
			own()
			delete(out, key)
			continue
		}
		if len(at.ignore) == 0 && !isNested(value) && !isQuantity(at.schema.Field(key)) {
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

func isQuantity(schema *listkeys.Node) bool { return schema != nil && schema.Kind == listkeys.Quantity }

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
	out = list
	for i, item := range list {
		below := at.item(item, i)
		wanted, differs := wants(item, below.ignore), false
		if wanted {
			item, differs = canonical(item, below)
		}
		if wanted && form == listKeyed && len(key.defaults) > 0 {
			plain, shorter := key.canonical(item)
			item, differs = plain, differs || shorter
		}
		if wanted && !differs && !changed {
			continue
		}
		if !changed {
			out, changed = append(make([]any, 0, len(list)), list[:i]...), true
		}
		switch {
		case wanted:
			out = append(out, item)
		case form == listWhole:
			out = append(out, nil)
		}
	}
	switch {
	case form == listSet:
		set, sorted := sortedBy(out, appendValueText)
		if distinct := slices.CompactFunc(slices.Clone(set), jsonvalue.Equal); len(distinct) < len(set) {
			return distinct, true
		}
		return set, changed || sorted
	case form == listKeyed && at.schema != nil && at.schema.AnyOrder:
		items, sorted := sortedBy(out, key.appendText)
		return items, changed || sorted
	}
	return out, changed
}

// sortedBy returns a list of the items of another one, sorted by their texts, and whether it
// differs from list. Items with the same text stay in their order.
func sortedBy(list []any, appendText func([]byte, any) []byte) (sorted []any, changed bool) {
	if len(list) < 2 {
		return list, false
	}
	type textItem struct {
		text []byte
		item any
	}
	var texts []byte
	items := make([]textItem, len(list))
	for i, item := range list {
		from := len(texts)
		texts = appendText(texts, item)
		items[i] = textItem{texts[from:], item}
	}
	byText := func(a, b textItem) int { return bytes.Compare(a.text, b.text) }
	if slices.IsSortedFunc(items, byText) {
		return list, false
	}
	slices.SortStableFunc(items, byText)
	sorted = make([]any, len(items))
	for i := range items {
		sorted[i] = items[i].item
	}
	return sorted, true
}
