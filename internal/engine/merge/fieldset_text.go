package merge

import (
	"strconv"
	"strings"
)

// The text of a FieldSet, as it stands in an annotation of a child:
//
//	fields = [ name below { "," name below } ]
//	below  = ""                          value
//	       | "*"                         owned whole
//	       | "{" fields "}"              object
//	       | "[" name ":" fields "]"     keyed list, by the keys before the colon
//	       | "[" name ">" fields "]"     the same, with the items in their order
//	       | "[]"                        empty list
//	       | "<" fields ">"              set
//	       | "(" below { "," below } ")" list compared whole
//
// Names are sorted, but for those of items in their order, and each is there once. A
// name is quoted as in Go if it is empty or has a byte with another meaning here. The text
// of an object that is owned whole is "*". The texts of earlier builds have no items in
// their order. An example:
//
//	metadata{labels{app}},spec{ports[port|protocol:#53|TCP{name}]}

// maxText is the length of the longest text that is written and read, in bytes.
const maxText = 256 << 10

// Encode returns the set as text of at most limit bytes, and of at most 256 KiB.
// Equal sets have the same text. If the set is too big, branches of it collapse,
// that is, they are recorded as owned whole: the biggest ones first, and no more
// than needed. Branches of metadata are left out instead, so that their fields will
// not be removed: a map of labels or annotations that is owned whole would include
// those of others. A limit below 1 gives the empty text.
func (s *FieldSet) Encode(limit int) string {
	limit = min(limit, maxText)
	text := string(s.appendRoot(nil))
	if len(text) <= limit {
		return text
	}
	if limit < 1 {
		return ""
	}
	return string(s.fit(limit).appendRoot(nil))
}

// appendRoot appends the text of the set of a whole object.
func (s *FieldSet) appendRoot(b []byte) []byte {
	if s.ownsWhole() {
		return append(b, '*')
	}
	return appendFields(b, s.objectFields())
}

// appendFields appends members, each with the set below it.
func appendFields(b []byte, fields members) []byte {
	for i, field := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = field.value.appendBelow(appendName(b, field.name))
	}
	return b
}

// appendBelow appends the text of a set that follows a name.
func (s *FieldSet) appendBelow(b []byte) []byte {
	switch s.kind {
	case shapeWhole:
		return append(b, '*')
	case shapeObject:
		return append(appendFields(append(b, '{'), s.fields), '}')
	case shapeSet:
		return append(appendFields(append(b, '<'), s.fields), '>')
	case shapeKeyed:
		return append(s.appendItems(append(b, '[')), ']')
	case shapeItems:
		b = append(b, '(')
		for i, item := range s.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendBelow(b)
		}
		return append(b, ')')
	}
	return b
}

// appendItems appends the keys and the items of a keyed list.
func (s *FieldSet) appendItems(b []byte) []byte {
	if len(s.keys) > 0 {
		b = appendName(b, strings.Join(s.keys, "|"))
	}
	switch {
	case len(s.keys) == 0:
		return b
	case s.order == nil:
		return appendFields(append(b, ':'), s.fields)
	}
	inOrder := make(members, len(s.order))
	for rank, i := range s.order {
		inOrder[rank] = s.fields[i]
	}
	return appendFields(append(b, '>'), inOrder)
}

// appendName appends the name of a member, in quotes if it needs any.
func appendName(b []byte, name string) []byte {
	if isPlainName(name) {
		return append(b, name...)
	}
	return strconv.AppendQuote(b, name)
}

// isPlainName says whether a name needs no quotes.
func isPlainName(name string) bool {
	for i := range len(name) {
		if name[i] != '|' && !isPlainByte(name[i]) {
			return false
		}
	}
	return name != ""
}
