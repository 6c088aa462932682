package merge

import (
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// While the schema of a type isn't known, nobody can tell which items of a list
// are the same item, and whether others may have items of their own in the list.
// The functions in this file change a list only where that makes no difference.

// awaitsSchema says whether the schema of the value at this place isn't known yet.
func (p place) awaitsSchema() bool {
	return p.pending && p.schema == nil && p.part != partMetadataField
}

// pendingList merges a list whose schema isn't known yet:
//
//   - An empty list becomes the desired one.
//   - A list of scalars keeps the elements of others. Elements that former holds
//     and desired lacks are removed.
//   - A list of objects with unique names is merged by the names, as long as every
//     live item of a desired name is one that former holds.
//   - A list all of whose items are desired gets the items that it lacks.
//
// Any other list that isn't as desired is left as it is, and awaits the schema.
func (m *merging) pendingList(live, desired []any, at place) ([]any, bool) {
	switch {
	case len(live) == 0 && len(desired) == 0:
		return live, false
	case len(live) == 0:
		return m.replaceList(live, desired, at)
	case len(desired) > 0 && at.hasOnlyScalars(live, desired):
		return m.set(live, desired, at)
	case len(desired) > 0 && at.namesOwnItems(live, desired):
		return m.keyed(live, desired, nameKey, at)
	}
	var whole merging
	if _, changed := whole.whole(live, desired, at); !changed && !whole.awaits && len(live) == len(desired) {
		return live, false
	}
	if out, ok := at.completed(live, desired); ok {
		m.report(live, desired, false)
		return out, true
	}
	m.await(live, desired)
	return live, false
}

// await reports a list that is left as it is until its schema is known.
func (m *merging) await(live, desired any) {
	m.awaits = true
	if m.collect {
		m.differences = append(m.differences, Difference{Path: m.path(), Live: live, Desired: desired, Awaits: true})
	}
}

// hasOnlyScalars says whether a live and a desired list hold scalars alone, and
// former tells which of them an earlier desired list had.
func (p place) hasOnlyScalars(live, desired []any) bool {
	known := p.formerKnown && (p.former == nil || p.former.kind == shapeSet)
	return known && allScalars(live) && allScalars(desired)
}

// namesOwnItems says whether two lists can be merged by the names of their items
// without a change of an item that isn't ours.
func (p place) namesOwnItems(live, desired []any) bool {
	if !nameKey.fits(live) || !nameKey.fits(desired) {
		return false
	}
	if !p.formerKnown {
		return true // the desired state is the one that these items were given
	}
	wanted := itemIndex{list: desired, key: &nameKey}
	for i, have := range live {
		if wanted.contains(have, i) && !p.former.hasItem(have, nil) {
			return false
		}
	}
	return true
}

// completed returns a live list, in the order of the desired one, with the desired
// items that it lacks. It returns false if a live item isn't desired, since that
// item may be somebody else's.
func (p place) completed(live, desired []any) ([]any, bool) {
	out := slices.Clone(desired)
	for i, want := range desired {
		out[i] = jsonvalue.NullFree(want)
	}
	taken := make([]bool, len(desired))
	for _, have := range live {
		found := slices.IndexFunc(desired, func(want any) bool {
			var probe merging
			_, changed := probe.value(have, want, place{pending: true})
			return want != nil && !changed && !probe.awaits
		})
		if found < 0 || taken[found] || len(p.ignore) > 0 {
			return nil, false
		}
		taken[found], out[found] = true, have
	}
	return out, true
}

// tellsOwnItems says whether former tells which items of a live list are to be
// removed, now that the list isn't desired any more.
func (p place) tellsOwnItems(live []any) bool {
	switch p.former.kind {
	case shapeKeyed:
		key := keyOf(p.former.keys, p.schema)
		return !p.awaitsSchema() || key.unique(live)
	case shapeSet:
		return true
	}
	return !p.awaitsSchema() && (p.former.kind == shapeWhole || !tellsItemsApart(p.schema))
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
