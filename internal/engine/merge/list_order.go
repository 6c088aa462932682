package merge

import "slices"

// orderCounts says whether the live items of a keyed list, which stand in another
// order than the wanted ones, are to be put in order.
//
// They are if the desired order is another one than before, unless the order of the
// list means nothing. Where others have changed the order, they aren't, but for
// initContainers and env: initContainers run one after the other, and a variable in
// env may refer to the variables before it. The order is a part of what is owned
// whole, and of two states of one object: see Comparison.Partial.
func (p place) orderCounts(e *keyedEdit) bool {
	switch {
	case p.schema != nil && p.schema.AnyOrder:
		return false
	case p.field == "initContainers" || p.field == "env" || p.owned || p.partial:
		return true
	}
	return p.formerKnown && !p.former.hasOrder(e)
}

// hasOrder says whether the earlier desired object had all the wanted items of the
// live list, in the order in which they are wanted.
func (s *FieldSet) hasOrder(e *keyedEdit) bool {
	if s == nil || s.kind != shapeKeyed || len(s.order) == 0 || !slices.Equal(s.keys, e.key.names) {
		return false
	}
	ranks := make([]int, len(s.order)) // index in fields -> position in the earlier list
	for rank, i := range s.order {
		ranks[i] = rank
	}
	last := -1
	for i, want := range e.wanted {
		if want == nil || e.position(i) < 0 {
			continue
		}
		at, ok := slices.BinarySearchFunc(s.fields, string(e.key.appendText(nil, want)), member.compare)
		if !ok || ranks[at] < last {
			return false
		}
		last = ranks[at]
	}
	return true
}

// ordered returns members sorted by name, with those of the same name joined, and
// the order in which they came: of each, its index in the sorted members.
func (m members) ordered() (sorted members, order []int) {
	sorted = slices.Clone(m).inOrder()
	order = make([]int, 0, len(sorted))
	seen := make([]bool, len(sorted))
	for _, field := range m {
		if i, _ := slices.BinarySearchFunc(sorted, field.name, member.compare); !seen[i] {
			seen[i] = true
			order = append(order, i)
		}
	}
	return sorted, order
}
