package merge

import (
	"cmp"
	"slices"
	"strconv"
)

// textSizes holds how long the texts of applied are, below their names.
type textSizes map[*FieldSet]int

// fit returns the set with as much collapsed or, in metadata, forgotten, as it
// takes for a text of at most limit bytes.
func (a *FieldSet) fit(limit int) *FieldSet {
	sizes := textSizes{}
	rest := &FieldSet{kind: shapeObject, fields: slices.Clone(a.fields)}
	rest.fields = slices.DeleteFunc(rest.fields, func(f member) bool { return f.name == "metadata" })
	size := sizes.of(rest) - len("{}")
	metadata := a.fields.get("metadata")
	if metadata != nil {
		// It may have half, or what the rest doesn't need.
		name := len("metadata")
		if size > 0 {
			name += len(",")
		}
		metadata = sizes.shrink(metadata, max(limit/2, limit-size)-name, true)
		limit -= name + sizes.of(metadata)
	}
	rest = sizes.shrink(rest, limit+len("{}"), false)
	if metadata == nil || rest.owns() {
		return rest
	}
	return &FieldSet{kind: shapeObject, fields: append(rest.fields, member{"metadata", metadata}).inOrder()}
}

func (s textSizes) of(a *FieldSet) int {
	if a == nil || a.kind == shapeValue {
		return 0
	}
	if a.kind == shapeWhole {
		return len("*")
	}
	size, known := s[a]
	if known {
		return size
	}
	size = len("{}") + max(0, len(a.fields)+len(a.items)-1)
	if len(a.keys) > 0 {
		size += len(":")
		for _, key := range a.keys {
			size += len(strconv.Quote(key)) + len("|")
		}
	}
	for _, field := range a.fields {
		size += nameSize(field.name) + s.of(field.value)
	}
	for _, item := range a.items {
		size += s.of(item)
	}
	s[a] = size
	return size
}

func nameSize(name string) int {
	if isPlainName(name) {
		return len(name)
	}
	return len(strconv.Quote(name))
}

// An sizedMember is a field or an item of this index, with the size of what is
// below it.
type sizedMember struct {
	name  string
	index int
	value *FieldSet
	size  int
}

// children returns the children of a, the biggest first.
func (s textSizes) children(a *FieldSet) []sizedMember {
	all := make([]sizedMember, 0, len(a.fields)+len(a.items))
	for i, field := range a.fields {
		all = append(all, sizedMember{name: field.name, index: i, value: field.value, size: s.of(field.value)})
	}
	for i, item := range a.items {
		all = append(all, sizedMember{index: i, value: item, size: s.of(item)})
	}
	slices.SortFunc(all, func(x, y sizedMember) int {
		return cmp.Or(cmp.Compare(y.size, x.size), cmp.Compare(x.name, y.name), cmp.Compare(x.index, y.index))
	})
	return all
}

// shrink returns a with so much collapsed that its text has at most budget
// bytes: in the biggest child as far as it goes, then in the next, at last as a
// whole. With forget things are left out instead, and the result is nil if
// nothing is left.
func (s textSizes) shrink(a *FieldSet, budget int, forget bool) *FieldSet {
	size := s.of(a)
	if size <= budget {
		return a
	}
	whole := &FieldSet{kind: shapeWhole}
	if forget {
		whole = nil
	}
	if a.kind == shapeItems && forget {
		return nil
	}
	out := &FieldSet{kind: a.kind, keys: a.keys, fields: slices.Clone(a.fields), items: slices.Clone(a.items)}
	left := len(a.fields)
	for _, child := range s.children(a) {
		if size <= budget || !forget && child.size <= s.of(whole) {
			break
		}
		smaller := whole
		if room := child.size - (size - budget); room > 0 {
			smaller = s.shrink(child.value, room, forget)
		}
		size -= child.size - s.of(smaller)
		switch {
		case a.kind == shapeItems:
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
	out.fields = slices.DeleteFunc(out.fields, func(f member) bool { return f.value == nil })
	return out
}
