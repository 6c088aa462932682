package merge

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// The fields that an entry of managedFields owns, and the values that they select
// in an object. No schema is needed: the paths of the fields tell the keys of lists.

// removedFields returns the owned fields that live has and merged lacks. Where
// merged lacks a whole object, list or item, that is everything owned in it.
func removedFields(owned *fieldpath.Set, live, merged any) *fieldpath.Set {
	removed := fieldpath.NewSet()
	keys := keyNames(owned)
	inLive, inMerged := lookup(live, keys), lookup(merged, keys)
	visit := func(element fieldpath.PathElement) {
		was := inLive(element)
		if was == nil {
			return
		}
		is := inMerged(element)
		if is == nil && owned.Members.Has(element) {
			removed.Members.Insert(element)
		}
		below, ok := owned.Children.Get(element)
		if ok && is != nil {
			below = removedFields(below, was, is)
		}
		if ok && !below.Empty() {
			*removed.Children.Descend(element) = *below
		}
	}
	owned.Members.Iterate(visit)
	owned.Children.Iterate(func(element fieldpath.PathElement) {
		if !owned.Members.Has(element) { // else it was visited already
			visit(element)
		}
	})
	return removed
}

// fieldsIn returns the owned fields that an object has. An element of a list is
// found by its key or its value.
func fieldsIn(owned *fieldpath.Set, object any) *fieldpath.Set {
	found := fieldpath.NewSet()
	in := lookup(object, keyNames(owned))
	owned.Members.Iterate(func(element fieldpath.PathElement) {
		if in(element) != nil {
			found.Members.Insert(element)
		}
	})
	owned.Children.Iterate(func(element fieldpath.PathElement) {
		is, below := in(element), owned.WithPrefix(element)
		if is == nil {
			return
		}
		if below = fieldsIn(below, is); !below.Empty() {
			*found.Children.Descend(element) = *below
		}
	})
	return found
}

// restored returns merged with these fields as they are in live.
func restored(merged, live any, fields *fieldpath.Set) any {
	if list, ok := live.([]any); ok {
		have, _ := merged.([]any)
		return restoredItems(have, list, fields)
	}
	have, _ := merged.(map[string]any)
	object, _ := live.(map[string]any)
	out := maps.Clone(have)
	if out == nil {
		out = map[string]any{}
	}
	for name, was := range object {
		element := fieldpath.PathElement{FieldName: &name}
		switch below := fields.WithPrefix(element); {
		case !below.Empty():
			out[name] = restored(out[name], was, below)
		case fields.Members.Has(element) && out[name] == nil:
			out[name] = was
		}
	}
	return out
}

// restoredItems is restored for the items of a list. Items that merged lacks are
// appended.
func restoredItems(merged, live []any, fields *fieldpath.Set) []any {
	keys := keyNames(fields)
	out := slices.Clone(merged)
	for _, was := range live {
		element := elementOf(was, keys)
		below := fields.WithPrefix(element)
		if below.Empty() && !fields.Members.Has(element) {
			continue
		}
		i := slices.IndexFunc(out, func(item any) bool { e := elementOf(item, keys); return e.Equals(element) })
		switch {
		case i >= 0 && !below.Empty():
			out[i] = restored(out[i], was, below)
		case i < 0 && !below.Empty():
			out = append(out, restored(nil, was, below))
		case i < 0:
			out = append(out, was)
		}
	}
	return out
}

// keyNames returns the names of the fields that are in any key of a set's
// elements: the key fields of a list, as far as the set tells.
func keyNames(set *fieldpath.Set) []string {
	var names map[string]struct{}
	collect := func(element fieldpath.PathElement) {
		if element.Key == nil {
			return
		}
		if names == nil {
			names = map[string]struct{}{}
		}
		for _, field := range *element.Key {
			names[field.Name] = struct{}{}
		}
	}
	set.Members.Iterate(collect)
	set.Children.Iterate(collect)
	return slices.Sorted(maps.Keys(names))
}

// lookup returns a function that finds what a path element selects in an object
// or a list: a field, an item with certain values in the key fields, or an
// element of a set. It returns nil for what isn't there and for null, and of
// several equal items the first. Nothing is ever at an index: the API server
// owns a list without keys only as a whole.
func lookup(in any, keys []string) func(fieldpath.PathElement) any {
	if object, ok := in.(map[string]any); ok {
		return func(element fieldpath.PathElement) any {
			if element.FieldName == nil {
				return nil
			}
			return object[*element.FieldName]
		}
	}
	type listItem struct {
		element fieldpath.PathElement
		item    any
	}
	list, _ := in.([]any)
	items := make([]listItem, len(list))
	for i, item := range list {
		items[i] = listItem{elementOf(item, keys), item}
	}
	slices.SortStableFunc(items, func(a, b listItem) int { return a.element.Compare(b.element) })
	return func(element fieldpath.PathElement) any {
		i, ok := slices.BinarySearchFunc(items, element, func(i listItem, e fieldpath.PathElement) int { return i.element.Compare(e) })
		if !ok {
			return nil
		}
		return items[i].item
	}
}

// elementOf returns the path element that selects an item of a list: its key,
// if it has any of the key fields, else its value. A key field that the item
// lacks isn't in the key, though it may have a default: only the schema knows.
func elementOf(item any, keys []string) fieldpath.PathElement {
	object, _ := item.(map[string]any)
	key := make(value.FieldList, 0, len(keys))
	for _, name := range keys {
		if v, ok := object[name]; ok {
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(v)})
		}
	}
	if len(key) == 0 {
		return fieldpath.ValueElement(value.NewValueInterface(item))
	}
	return fieldpath.PathElement{Key: &key}
}
