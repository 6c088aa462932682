package merge

import "slices"

// A keyedEdit is a live keyed list and the changes that are to be made to it.
// Slices that aren't needed stay nil, so that a list without changes allocates
// nothing.
type keyedEdit struct {
	live   []any
	wanted []any // the desired items; nil in the place of ignored ones
	key    listKey

	positions []int  // per wanted item: its index in live, or -1; nil: each has its own index
	used      []bool // per live item: is it wanted? nil: the first len(wanted) are
	merged    []any  // per wanted item: the merged item, nil if it is the live one; nil: all are
	dropped   []bool // per live item: is it removed? nil: none is
	rebuild   bool   // items are added or removed, or change places
}

// keyed merges a list whose items are objects that are found by keys.
func (m *merging) keyed(live, desired []any, key listKey, at place) ([]any, bool) {
	e := keyedEdit{live: live, wanted: at.compared(desired), key: key}
	e.positions, e.used = key.pair(live, e.wanted)
	e.pairMoved(at)
	var names itemNames
	for i, want := range e.wanted {
		if want != nil {
			m.pushItem(&names, key, want, i)
			m.item(&e, i, at)
			m.pop()
		}
	}
	if at.former != nil {
		m.dropItems(&e, &names, desired, at)
	}
	twins := e.dropTwins(at)
	if disordered := !e.inOrder() && at.orderCounts(&e); twins || disordered {
		m.report(live, desired, false)
		e.rebuild = true
	}
	return e.result()
}

// item merges the wanted item i into the live item that it is paired with.
func (m *merging) item(e *keyedEdit, i int, at place) {
	want, below := e.wanted[i], at.item(e.wanted[i], i)
	var have any
	moved := false
	if j := e.position(i); j >= 0 {
		have = e.live[j]
		if moved = !e.key.equal(have, want); moved {
			below.former = at.former.item(have, -1, at.schema)
		}
		if moved || below.former != nil || e.key.blank(want) {
			want = e.key.explicit(want, have)
		}
	}
	if merged, changed := m.value(have, want, below.claimed()); changed {
		e.set(i, merged)
		e.rebuild = e.rebuild || moved
	}
}

// pairMoved pairs wanted items with live items whose keys were changed, such as
// a port of a Service with another number. The API server would refuse the two
// side by side, since both have the same name, or one has none. So a wanted item is
// paired with the live item of its name, whoever has made that one. In lists in
// which names needn't be unique, all keys make the identity of an item.
func (e *keyedEdit) pairMoved(at place) {
	if e.positions == nil || at.schema == nil || !at.schema.UniqueNames {
		return
	}
	for i, want := range e.wanted {
		if want == nil || e.positions[i] >= 0 || !e.key.complete(want) {
			continue
		}
		j := -1
		if name := e.key.name(want); name != "" {
			j = slices.IndexFunc(e.live, func(have any) bool { return e.key.name(have) == name && !at.ignoredOf(have, -1).here() })
		} else if len(e.wanted) == 1 {
			j = e.movedUnnamed(at)
		}
		if j >= 0 && !e.used[j] {
			e.positions[i], e.used[j] = j, true
		}
	}
}

// movedUnnamed returns the index of the live item that has become of the only wanted
// item, which has no name, or -1. If an item without a name can't have siblings, that is
// one of the live items, and best one that former has. Else only former can tell.
func (e *keyedEdit) movedUnnamed(at place) int {
	others := -1
	for j, have := range e.live {
		switch {
		case at.ignoredOf(have, -1).here():
		case at.formerKnown && at.former.hasItem(have, at.schema) && (at.schema.SoleUnnamed || len(e.live) == 1 && e.key.name(have) == ""):
			return j
		case at.schema.SoleUnnamed && others < 0:
			others = j
		}
	}
	return others
}

// compared returns desired with nil in the place of items that are ignored
// altogether.
func (p place) compared(desired []any) []any {
	out := desired
	for i, want := range desired {
		if !wants(want, p.ignoredOf(want, i)) {
			if &out[0] == &desired[0] {
				out = slices.Clone(desired)
			}
			out[i] = nil
		}
	}
	return out
}

// dropItems marks the live items as dropped that former holds and desired lacks.
func (m *merging) dropItems(e *keyedEdit, names *itemNames, desired []any, at place) {
	all := itemIndex{list: desired, key: &e.key}
	for j, have := range e.live {
		if e.isUsed(j) || !at.former.hasItem(have, at.schema) || all.contains(have, j) || !at.former.isUnique(have, e.live, at.schema) {
			continue
		}
		below := at.item(have, -1)
		if below.ignore.here() {
			continue
		}
		m.pushItem(names, e.key, have, j)
		m.report(have, nil, !below.uncertain)
		m.pop()
		e.drop(j)
	}
}

// dropTwins marks the live items as dropped that have the keys of a wanted item
// besides the live item that is paired with it, and says whether there are any. The
// one who reads the list would take a twin for the wanted item. Where names are unique,
// an item with the name of a wanted one is a twin, too: the API server refuses the two.
func (e *keyedEdit) dropTwins(at place) (found bool) {
	if e.positions == nil && len(e.live) == len(e.wanted) {
		return false
	}
	wanted := itemIndex{list: e.wanted, key: &e.key}
	for j, have := range e.live {
		if e.isUsed(j) || ((!e.key.complete(have) || !wanted.contains(have, j)) && !e.takesName(have, at)) || at.ignoredOf(have, -1).here() {
			continue
		}
		e.drop(j)
		found = true
	}
	return found
}

// takesName says whether a live item has the name of a wanted one in a list of unique
// names.
func (e *keyedEdit) takesName(have any, at place) bool {
	if at.schema == nil || !at.schema.UniqueNames {
		return false
	}
	name := e.key.name(have)
	return name != "" && slices.ContainsFunc(e.wanted, func(want any) bool { return want != nil && e.key.name(want) == name })
}

// drop marks a live item as dropped.
func (e *keyedEdit) drop(j int) {
	if e.dropped == nil {
		e.dropped = make([]bool, len(e.live))
	}
	e.dropped[j], e.rebuild = true, true
}

// position returns the index of the wanted item i in the live list, or -1.
func (e *keyedEdit) position(i int) int {
	if e.positions == nil {
		return i
	}
	return e.positions[i]
}

// isUsed says whether the live item j is paired with a wanted one.
func (e *keyedEdit) isUsed(j int) bool {
	if e.positions == nil {
		return j < len(e.wanted)
	}
	return e.used[j]
}

// inOrder says whether the live items stand in the order of the wanted ones.
func (e *keyedEdit) inOrder() bool {
	last := -1
	for _, j := range e.positions {
		if j >= 0 && j < last {
			return false
		}
		last = max(last, j)
	}
	return true
}

// set records the merged item of the wanted item i.
func (e *keyedEdit) set(i int, item any) {
	if e.merged == nil {
		e.merged = make([]any, len(e.wanted))
	}
	e.merged[i] = item
	e.rebuild = e.rebuild || e.position(i) < 0
}

// result returns the merged list, and whether it differs from the live one.
func (e *keyedEdit) result() ([]any, bool) {
	switch {
	case e.rebuild:
		return e.rebuilt(), true
	case e.merged == nil:
		return e.live, false
	}
	out := slices.Clone(e.live)
	for i, item := range e.merged {
		if item != nil {
			out[e.position(i)] = item
		}
	}
	return out, true
}

// rebuilt returns the wanted items in their order. Each is followed by the items
// of others that follow it in the live list.
func (e *keyedEdit) rebuilt() []any {
	after, twins := e.othersItems()
	out := make([]any, 0, len(e.live)+len(e.wanted))
	out = append(out, after[0]...)
	for i, want := range e.wanted {
		switch j := e.position(i); {
		case want == nil:
		case e.merged != nil && e.merged[i] != nil:
			out = append(out, e.merged[i])
		case j >= 0:
			out = append(out, e.live[j])
		}
		out = append(out, after[i+1]...)
	}
	return append(out, twins...)
}

// othersItems returns the live items that stay but aren't wanted. after[i+1]
// holds those that follow the wanted item i, and after[0] those before the first
// one. Items with the keys of a wanted item are twins. They belong at the end of
// the list. In front of the wanted item the next comparison would mistake a twin
// for it.
func (e *keyedEdit) othersItems() (after [][]any, twins []any) {
	after = make([][]any, len(e.wanted)+1)
	anchors := make([]int, len(e.live)) // live index -> 1 + index of the wanted item
	for i, want := range e.wanted {
		if j := e.position(i); want != nil && j >= 0 {
			anchors[j] = i + 1
		}
	}
	wanted := itemIndex{list: e.wanted, key: &e.key}
	anchor := 0
	for j, item := range e.live {
		switch {
		case anchors[j] > 0:
			anchor = anchors[j]
		case e.dropped != nil && e.dropped[j]:
		case wanted.contains(item, j):
			twins = append(twins, item)
		default:
			after[anchor] = append(after[anchor], item)
		}
	}
	return after, twins
}
