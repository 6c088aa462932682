package jsonvalue

import (
	"slices"
	"strconv"
	"strings"
)

// Covers says that text, a valid JSON object without spaces, has all that want
// specifies, without decoding it: every member that isn't null, of objects within
// objects too, and lists that are the same. Where it says no, the two may still
// mean the same: a number may be spelled in another way, or a list have its items
// in another order.
//
// want is made of the values of unstructured.Unstructured.
func Covers(text string, want map[string]any) bool {
	m := matcher{reader{text: text}}
	return m.object(want, false)
}

// A matcher looks at each member of the text once, and skips what isn't wanted.
// After a method has returned true it is behind the value.
type matcher struct{ reader }

func (m *matcher) value(want any, exactly bool) bool {
	switch want := want.(type) {
	case string:
		return m.text[m.pos] == '"' && m.string() == want
	case map[string]any:
		return m.object(want, exactly)
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

// object matches an object, exactly if it is to have no other member.
func (m *matcher) object(want map[string]any, exactly bool) bool {
	if m.text[m.pos] != '{' {
		return false
	}
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
		// The API server sends no key twice, so that the last one needn't be found.
		if len(seen) > 0 && key <= highest && slices.Contains(seen, key) || !m.value(value, exactly) {
			return false
		}
		seen, highest = append(seen, key), max(highest, key)
		missing--
	}
	m.pos++
	return missing == 0
}

// list matches a list with the same items, which have no members but those that
// are wanted: they could tell it from another item.
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
		if m.text[m.pos] == ']' || !m.value(item, true) {
			return false
		}
	}
	if m.text[m.pos] != ']' {
		return false
	}
	m.pos++
	return true
}
