package merge

import (
	"strconv"
	"strings"
)

// The text of an applied, as it stands in the mark on a child:
//
//	fields = [ name below { "," name below } ]
//	below  = ""                          value
//	       | "*"                         owned whole
//	       | "{" fields "}"              object
//	       | "[" name ":" fields "]"     keyed list, by the keys before the colon
//	       | "[]"                        empty list
//	       | "<" fields ">"              set
//	       | "(" below { "," below } ")" list compared whole
//
// Names are in order, each once, and quoted as in Go where they hold anything that
// has a meaning here.
// An example: metadata{labels{app}},spec{ports[port|protocol:#53|TCP{name}]}.
// The text of a root that is owned whole is "*".

// maxAppliedText bounds the texts that are written and read, in bytes.
const maxText = 256 << 10

// Encode returns the set as text of at most limit bytes, always the same for
// the same set. What doesn't fit collapses into its ancestors, the biggest
// children first and no more than needed: they are then owned whole. Metadata
// is the exception, since the annotations and labels of others can't be told
// apart there: what doesn't fit of it is forgotten, that is, it will not be
// removed. A text is never longer than 256 KiB, whatever the limit.
func (a *FieldSet) Encode(limit int) string {
	limit = min(limit, maxText)
	text := string(a.appendRoot(nil))
	if len(text) <= limit {
		return text
	}
	if limit < 1 {
		return ""
	}
	return string(a.fit(limit).appendRoot(nil))
}

func (a *FieldSet) appendRoot(b []byte) []byte {
	if a.owns() {
		return append(b, '*')
	}
	return appendFields(b, a.objectFields())
}

func appendFields(b []byte, fields members) []byte {
	for i, field := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = field.value.appendBelow(appendName(b, field.name))
	}
	return b
}

func (a *FieldSet) appendBelow(b []byte) []byte {
	switch a.kind {
	case shapeWhole:
		return append(b, '*')
	case shapeObject:
		return append(appendFields(append(b, '{'), a.fields), '}')
	case shapeSet:
		return append(appendFields(append(b, '<'), a.fields), '>')
	case shapeKeyed:
		b = append(b, '[')
		if len(a.keys) > 0 {
			b = append(appendName(b, strings.Join(a.keys, "|")), ':')
		}
		return append(appendFields(b, a.fields), ']')
	case shapeItems:
		b = append(b, '(')
		for i, item := range a.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendBelow(b)
		}
		return append(b, ')')
	}
	return b
}

// appendName appends the name of a field or the text of an item's key.
func appendName(b []byte, name string) []byte {
	if isPlainName(name) {
		return append(b, name...)
	}
	return strconv.AppendQuote(b, name)
}

func isPlainName(name string) bool {
	for i := range len(name) {
		if name[i] != '|' && !isPlainByte(name[i]) {
			return false
		}
	}
	return name != ""
}
