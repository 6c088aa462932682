package jsonvalue

import (
	"slices"
	"strconv"
	"strings"
)

// An Extent says of an object, and of its members, which of them must have no other
// members than the wanted ones. nil says so of none.
type Extent interface {
	// Member returns the Extent of a member, which may be nil.
	Member(name string) Extent
	// Whole says whether the object must have no other members.
	Whole() bool
}

// Covers says, without decoding text, whether the object in text has everything that
// want specifies. text must be a valid JSON object without spaces. Every member of
// want that isn't null must be there, in nested objects too. Lists must be equal, and
// so must objects that extent says are whole.
//
// Where Covers returns false, the two may still mean the same: a number may be
// written in another way, or the items of a list be in another order.
func Covers(text string, want map[string]any, extent Extent) bool {
	m := matcher{reader{text: text}}
	return m.object(want, extent, false)
}

// A matcher compares a text with a wanted value. It looks at each member of the text
// once, and skips members that aren't wanted. After a method has returned true, pos
// is behind the value.
type matcher struct{ reader }

// value matches any value. Objects must have no other members if exactly is true, or
// if extent, which may be nil, says so.
func (m *matcher) value(want any, extent Extent, exactly bool) bool {
	switch want := want.(type) {
	case string:
		return m.text[m.pos] == '"' && m.string() == want
	case map[string]any:
		return m.object(want, extent, exactly)
	case []any:
		return m.list(want)
	case bool:
		return m.literal(strconv.FormatBool(want))
	case int64:
		var scratch [20]byte
		return m.literal(string(strconv.AppendInt(scratch[:0], want, 10)))
	}
	return false
}

// literal matches a number, true or false.
func (m *matcher) literal(want string) bool {
	rest, ok := strings.CutPrefix(m.text[m.pos:], want)
	if !ok || !isDelimiter(rest[0]) {
		return false
	}
	m.pos += len(want)
	return true
}

// object matches an object. It must have no other members if exactly is true, or if
// extent says so.
func (m *matcher) object(want map[string]any, extent Extent, exactly bool) bool {
	if m.text[m.pos] != '{' {
		return false
	}
	exactly = exactly || extent != nil && extent.Whole()
	missing := 0
	for _, value := range want {
		if value != nil {
			missing++
		}
	}
	var scratch [16]string
	seen, highest := scratch[:0], ""
	for m.pos++; m.text[m.pos] != '}'; {
		if m.text[m.pos] == ',' {
			m.pos++
		}
		key := m.string()
		m.pos++ // the colon
		value := want[key]
		if value == nil {
			if exactly {
				return false
			}
			m.pos = Skip(m.text, m.pos)
			continue
		}
		// The API server sends no key twice. A key that is there twice is not covered,
		// so that the last of its values needn't be found.
		if len(seen) > 0 && key <= highest && slices.Contains(seen, key) || !m.value(value, member(extent, key), exactly) {
			return false
		}
		seen, highest = append(seen, key), max(highest, key)
		missing--
	}
	m.pos++
	return missing == 0
}

// member returns the Extent of a member of an object. Both may be nil.
func member(object Extent, name string) Extent {
	if object == nil {
		return nil
	}
	return object.Member(name)
}

// list matches a list with the same items. Objects within must have no other
// members: another member could make an item a different one.
func (m *matcher) list(want []any) bool {
	if m.text[m.pos] != '[' {
		return false
	}
	m.pos++
	for i, item := range want {
		if i > 0 {
			if m.text[m.pos] != ',' {
				return false
			}
			m.pos++
		}
		if m.text[m.pos] == ']' || !m.value(item, nil, true) {
			return false
		}
	}
	if m.text[m.pos] != ']' {
		return false
	}
	m.pos++
	return true
}
