package merge

import (
	"maps"
	"slices"
	"strconv"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// An itemIndex finds items of a list: by key, or, without one, by value.
type itemIndex struct {
	list  []any
	key   *listKey
	texts map[string]struct{} // of the list, once it is needed
}

// contains says whether the list has the item. Items that are nil count as
// missing. It looks at position hint first.
func (x *itemIndex) contains(item any, hint int) bool {
	if hint < len(x.list) && x.equal(x.list[hint], item) {
		return true
	}
	if len(x.list) <= smallList {
		return slices.ContainsFunc(x.list, func(other any) bool { return x.equal(other, item) })
	}
	if x.texts == nil {
		x.texts = make(map[string]struct{}, len(x.list))
		for _, other := range x.list {
			if other != nil {
				x.texts[string(x.appendText(nil, other))] = struct{}{}
			}
		}
	}
	var scratch [64]byte
	_, ok := x.texts[string(x.appendText(scratch[:0], item))]
	return ok
}

func (x *itemIndex) equal(listed, item any) bool {
	if listed == nil {
		return false
	}
	if x.key == nil {
		return jsonvalue.Equal(listed, item)
	}
	return x.key.equal(listed, item)
}

// add appends an item to the list, which must be the index's own.
func (x *itemIndex) add(item any) {
	x.list = append(x.list, item)
	if x.texts != nil {
		x.texts[string(x.appendText(nil, item))] = struct{}{}
	}
}

func (x *itemIndex) appendText(b []byte, item any) []byte {
	if x.key == nil {
		return appendValueText(b, item)
	}
	return x.key.appendText(b, item)
}

// itemNames names the items of one list in paths: by their keys, or by their
// position where an earlier one has the same key.
type itemNames map[string]struct{}

func (m *merging) pushItem(names *itemNames, key listKey, item any, index int) {
	if !m.collect {
		return
	}
	step := key.step(item)
	if _, taken := (*names)[step]; taken {
		step = "[" + strconv.Itoa(index) + "]"
	}
	if *names == nil {
		*names = itemNames{}
	}
	(*names)[step] = struct{}{}
	m.trail = append(m.trail, trailStep{item: step})
}

// appendValueText appends a text for a JSON value, which is the same for equal
// values and for no others. Most strings stand for themselves.
func appendValueText(b []byte, v any) []byte {
	if s, ok := v.(string); ok {
		if isPlainText(s) {
			return append(b, s...)
		}
		return strconv.AppendQuote(b, s)
	}
	return appendJSON(append(b, '#'), v)
}

// isPlainText says whether a string needs no quotes in a text.
func isPlainText(s string) bool {
	for i := range len(s) {
		if !isPlainByte(s[i]) {
			return false
		}
	}
	return s != "" && s[0] != '#'
}

// isPlainByte is true for what has no meaning of its own in texts and marks.
func isPlainByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '.', '-', '_', '/', '=', '+', '@', '~', '%', '$', '&', '!', '?', '^', ';', '#':
		return true
	}
	return false
}

// appendJSON appends a JSON value, with equal numbers written alike.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return strconv.AppendQuote(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		if i := int64(v); jsonvalue.SameNumber(i, v) {
			return strconv.AppendInt(b, i, 10)
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendQuote(b, key), ':')
			b = appendJSON(b, v[key])
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}
