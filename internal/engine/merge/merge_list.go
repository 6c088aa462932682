package merge

import (
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// list merges a desired list into a live one. live is nil if there is none.
func (m *merging) list(live, desired []any, at place) ([]any, bool) {
	if len(desired) == 0 && at.part != partMetadataField {
		return m.empty(live, at)
	}
	form, key := listFormOf(desired, at.schema)
	switch form {
	case listSet:
		return m.set(live, desired, at)
	case listKeyed:
		if key.fits(live) {
			return m.keyed(live, desired, key, at)
		}
		if !key.byShape {
			return m.replaceList(live, desired, at)
		}
	}
	return m.whole(live, desired, at)
}

// empty removes all items of a live list but the ignored ones.
func (m *merging) empty(live []any, at place) ([]any, bool) {
	kept := at.ignoredItems(live)
	if len(kept) == len(live) {
		return live, false
	}
	m.report(live, []any{}, false)
	return kept, true
}

// replaceList puts the desired list in the place of the live one.
func (m *merging) replaceList(live, desired []any, at place) ([]any, bool) {
	if !wants(desired, at.ignore) {
		return live, false
	}
	list := jsonvalue.NullFreeList(desired)
	m.report(live, list, false)
	return list, true
}

// whole merges a list without keys. Lists of the same length are merged item by
// item. Otherwise the desired list takes the place of the live one.
func (m *merging) whole(live, desired []any, at place) ([]any, bool) {
	if len(live) != len(desired) {
		return m.replaceList(live, desired, at)
	}
	out, changed := live, false
	for i, want := range desired {
		below := at.item(want, i)
		below.inWhole = true
		if former := at.former.itemWithKeys(live[i], at.schema); former != nil {
			below.former = former // the list was keyed, so its items are known by their keys
		}
		if below.ignore.here() {
			continue
		}
		m.pushIndex(i)
		merged, itemChanged := m.wholeItem(live[i], want, below)
		m.pop()
		if !itemChanged {
			continue
		}
		if !changed {
			out, changed = slices.Clone(live), true
		}
		out[i] = merged
	}
	return out, changed
}

// wholeItem merges an item of a list that is compared whole. A desired null is a
// value like any other there, since the items have no keys that could be left out.
func (m *merging) wholeItem(live, desired any, at place) (any, bool) {
	switch {
	case desired != nil:
		return m.value(live, desired, at.claimed())
	case live == nil:
		return nil, false
	}
	m.report(live, nil, false)
	return nil, true
}

// set merges a set: a list in which only membership counts. Desired elements are
// added. Elements that former holds and desired lacks are removed.
func (m *merging) set(live, desired []any, at place) ([]any, bool) {
	out := live
	desired = jsonvalue.NullFreeList(desired)
	if at.former != nil {
		out = m.setWithoutFormer(live, desired, at)
	}
	has, added := itemIndex{list: out}, itemIndex{}
	for i, want := range desired {
		if want == nil || at.ignoredOf(want, i).here() || has.contains(want, i) ||
			added.contains(want, i) {
			continue
		}
		added.add(want)
	}
	if len(added.list) > 0 {
		m.report(live, desired, false)
		return slices.Concat(out, added.list), true
	}
	return out, len(out) < len(live)
}

// setWithoutFormer returns a live set without the elements that former holds and
// desired lacks.
func (m *merging) setWithoutFormer(live, desired []any, at place) []any {
	out, changed := live, false
	wanted := itemIndex{list: desired}
	for i, have := range live {
		goes := have != nil && !wanted.contains(have, i) && at.former.hasItem(have, at.schema) &&
			!at.ignoredOf(have, -1).here()
		switch {
		case goes:
			m.pushIndex(i)
			m.report(have, nil, !at.item(have, -1).uncertain)
			m.pop()
			if !changed {
				out, changed = slices.Clone(live[:i]), true
			}
		case changed:
			out = append(out, have)
		}
	}
	return out
}
