package merge

import (
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/listkeys"
)

// tellsOwnItems says whether former tells which items of a live list are to be
// removed, now that the list isn't desired any more.
func (p place) tellsOwnItems() bool {
	switch p.former.kind {
	case shapeKeyed, shapeSet, shapeWhole:
		return true
	}
	return !tellsItemsApart(p.schema)
}

// tellsItemsApart says whether a schema is that of a list in which others may have
// items of their own.
func tellsItemsApart(schema *listkeys.Node) bool {
	return schema != nil && schema.Kind == listkeys.List && !schema.Atomic && (schema.Set || len(schema.Keys) > 0)
}

// isUnique says whether no other item of a live list could be mistaken for an item
// that the set holds. That may happen if the items were recorded by other keys
// than the schema has by now.
func (s *FieldSet) isUnique(item any, live []any, schema *listkeys.Node) bool {
	if s.kind != shapeKeyed || schema == nil || slices.Equal(s.keys, schema.Keys) {
		return true
	}
	key, count := keyOf(s.keys, schema), 0
	for _, other := range live {
		if key.equal(other, item) {
			count++
		}
	}
	return count == 1
}

// pendingForm returns the form in which a desired list is recorded whose schema
// isn't known yet. A list of scalars may be a set. A list of objects may have any
// scalar field as a key that all of its items have.
func pendingForm(desired []any) (listForm, listKey) {
	if allScalars(desired) {
		return listSet, listKey{}
	}
	var names []string
	for i, item := range desired {
		object, ok := item.(map[string]any)
		if !ok {
			return listWhole, listKey{}
		}
		if i == 0 {
			names = slices.Sorted(maps.Keys(object))
		}
		names = slices.DeleteFunc(names, func(name string) bool { return object[name] == nil || isNested(object[name]) })
	}
	if len(names) == 0 {
		return listWhole, listKey{}
	}
	return listKeyed, listKey{names: names}
}

func allScalars(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { return v == nil || isNested(v) })
}
