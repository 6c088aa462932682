package merge

import "slices"

// A keyedEdit is a live keyed list and what becomes of it.
type keyedEdit struct {
	live   []any
	wanted []any // the desired items that count; nil for ignored ones
	key    listKey

	positions []int  // of the wanted items in live, -1: missing; nil: the same
	used      []bool // live items that are wanted; nil: the first len(wanted)
	merged    []any  // what the wanted items become; nil: as they are
	dropped   []bool // live items that go; nil: none
	rebuild   bool   // items come, go or move
}

// keyed merges a list whose items are objects with keys.
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
	if at.ordered() && !e.inOrder() {
		m.report(live, desired, false)
		e.rebuild = true
	}
	return e.result()
}

// item merges the wanted item i.
func (m *merging) item(e *keyedEdit, i int, at place) {
	want, below := e.wanted[i], at.item(e.wanted[i], i)
	var have any
	moved := false
	if j := e.position(i); j >= 0 {
		have = e.live[j]
		if moved = !e.key.equal(have, want); moved {
			below.former = at.former.item(have, -1, at.schema)
		}
		if moved || below.former != nil {
			want = e.key.explicit(want, have)
		}
	}
	if merged, changed := m.value(have, want, below); changed {
		e.set(i, merged)
		e.rebuild = e.rebuild || moved
	}
}

// pairMoved pairs wanted items with live ones that are the same under another
// key: a port of a Service whose number was changed. Both versions couldn't
// exist side by side, since their names would collide, or one be missing. An
// item that is known not to have been ours is never taken.
func (e *keyedEdit) pairMoved(at place) {
	if e.positions == nil || len(e.key.names) < 2 || itemSchema(at.schema).Field("name") == nil {
		return
	}
	sole := len(e.live) == 1 && len(e.wanted) == 1
	for i, want := range e.wanted {
		if want == nil || e.positions[i] >= 0 || !e.key.complete(want) {
			continue
		}
		name, _ := e.key.value(want, "name").(string)
		j := slices.IndexFunc(e.live, func(have any) bool {
			liveName, _ := e.key.value(have, "name").(string)
			return liveName == name && (name != "" || sole) && (!at.hadMark || at.former.hasItem(have, at.schema)) &&
				!at.ignoredOf(have, -1).here()
		})
		if j >= 0 && !e.used[j] {
			e.positions[i], e.used[j] = j, true
		}
	}
}

// compared returns desired with nil for items of which nothing is compared.
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

// dropItems drops the items that were ours and that desired lacks.
func (m *merging) dropItems(e *keyedEdit, names *itemNames, desired []any, at place) {
	all := itemIndex{list: desired, key: &e.key}
	for j, have := range e.live {
		if e.isUsed(j) || !at.former.hasItem(have, at.schema) || all.contains(have, j) {
			continue
		}
		below := at.item(have, -1)
		if below.ignore.here() {
			continue
		}
		m.pushItem(names, e.key, have, j)
		m.report(have, nil, !below.uncertain)
		m.pop()
		if e.dropped == nil {
			e.dropped = make([]bool, len(e.live))
		}
		e.dropped[j], e.rebuild = true, true
	}
}

// position returns where the wanted item i is in the live list, -1: nowhere.
func (e *keyedEdit) position(i int) int {
	if e.positions == nil {
		return i
	}
	return e.positions[i]
}

// isUsed says whether a live item is a wanted one.
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

// set makes item what the wanted item i becomes.
func (e *keyedEdit) set(i int, item any) {
	if e.merged == nil {
		e.merged = make([]any, len(e.wanted))
	}
	e.merged[i] = item
	e.rebuild = e.rebuild || e.position(i) < 0
}

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

// rebuilt puts the wanted items in their order, each followed by the items of
// others that follow it in the live list.
func (e *keyedEdit) rebuilt() []any {
	after := make([][]any, len(e.wanted)+1) // after[0] is the head
	anchors := make([]int, len(e.live))
	for i, want := range e.wanted {
		if j := e.position(i); want != nil && j >= 0 {
			anchors[j] = i + 1
		}
	}
	// Others' items with the keys of a wanted one would be taken for it if they
	// came first.
	var twins []any
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
