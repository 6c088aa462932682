package merge

import (
	"cmp"
	"slices"
	"strconv"
)

// textSizes are the lengths in bytes of the texts of FieldSets, as appendBelow
// writes them.
type textSizes map[*FieldSet]int

// fit returns the set with fields collapsed, or forgotten in metadata, until the
// text has at most limit bytes.
func (s *FieldSet) fit(limit int) *FieldSet {
	sizes := textSizes{}
	rest := &FieldSet{kind: shapeObject, fields: slices.Clone(s.fields)}
	rest.fields = slices.DeleteFunc(rest.fields, func(m member) bool { return m.name == "metadata" })
	size := sizes.of(rest) - len("{}")
	metadata := s.fields.get("metadata")
	if metadata != nil {
		// Metadata may have half of the limit, or the bytes that the rest leaves.
		name := len("metadata")
		if size > 0 {
			name += len(",")
		}
		metadata = sizes.shrink(metadata, max(limit/2, limit-size)-name, true)
		limit -= name + sizes.of(metadata)
	}
	rest = sizes.shrink(rest, limit+len("{}"), false)
	if metadata == nil || rest.ownsWhole() {
		return rest
	}
	return &FieldSet{kind: shapeObject, fields: append(rest.fields, member{"metadata", metadata}).inOrder()}
}

// of returns the length of the text of a set. It may be a little too much for the
// keys of a list, but never too little.
func (t textSizes) of(set *FieldSet) int {
	if set == nil || set.kind == shapeValue {
		return 0
	}
	if set.kind == shapeWhole {
		return len("*")
	}
	size, known := t[set]
	if known {
		return size
	}
	size = len("{}") + max(0, len(set.fields)+len(set.items)-1)
	if len(set.keys) > 0 {
		size += len(":")
		for _, key := range set.keys {
			size += len(strconv.Quote(key)) + len("|")
		}
	}
	for _, field := range set.fields {
		size += nameSize(field.name) + t.of(field.value)
	}
	for _, item := range set.items {
		size += t.of(item)
	}
	t[set] = size
	return size
}

// nameSize returns the length of the text of a name.
func nameSize(name string) int {
	if isPlainName(name) {
		return len(name)
	}
	return len(strconv.Quote(name))
}

// A sizedMember is a branch of a FieldSet with the length of its text: the member,
// or the item of a list that is compared whole, with this index.
type sizedMember struct {
	name  string // "" for an item
	index int
	value *FieldSet
	size  int // of value's text, in bytes
}

// children returns the branches of a set, the biggest first.
func (t textSizes) children(set *FieldSet) []sizedMember {
	all := make([]sizedMember, 0, len(set.fields)+len(set.items))
	for i, field := range set.fields {
		all = append(all, sizedMember{name: field.name, index: i, value: field.value, size: t.of(field.value)})
	}
	for i, item := range set.items {
		all = append(all, sizedMember{index: i, value: item, size: t.of(item)})
	}
	slices.SortFunc(all, func(x, y sizedMember) int {
		return cmp.Or(cmp.Compare(y.size, x.size), cmp.Compare(x.name, y.name), cmp.Compare(x.index, y.index))
	})
	return all
}

// shrink collapses branches of a set until its text has at most budget bytes: first
// within the biggest branch, then within the next, and at last the set itself. With
// forget, branches are left out instead of collapsed. The result is nil if nothing
// is left.
func (t textSizes) shrink(set *FieldSet, budget int, forget bool) *FieldSet {
	size := t.of(set)
	if size <= budget {
		return set
	}
	whole := &FieldSet{kind: shapeWhole}
	if forget {
		whole = nil
	}
	if set.kind == shapeItems && forget {
		return nil
	}
	out := &FieldSet{kind: set.kind, keys: set.keys, order: set.order, fields: slices.Clone(set.fields), items: slices.Clone(set.items)}
	left := len(set.fields)
	for _, child := range t.children(set) {
		if size <= budget || !forget && child.size <= t.of(whole) {
			break
		}
		smaller := whole
		if room := child.size - (size - budget); room > 0 {
			smaller = t.shrink(child.value, room, forget)
		}
		size -= child.size - t.of(smaller)
		switch {
		case set.kind == shapeItems:
			out.items[child.index] = smaller
		case smaller == nil:
			out.fields[child.index].value = nil
			left--
			size -= nameSize(child.name) + min(left, len(","))
		default:
			out.fields[child.index].value = smaller
		}
	}
	if size > budget || left+len(out.items) == 0 {
		return whole
	}
	if left < len(out.fields) {
		out.fields, out.order = slices.DeleteFunc(out.fields, func(m member) bool { return m.value == nil }), nil
	}
	return out
}
