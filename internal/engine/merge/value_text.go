package merge

import (
	"maps"
	"slices"
	"strconv"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// appendValueText appends a text that equal JSON values have in common, and no
// others. The text of most strings is the string itself.
func appendValueText(b []byte, v any) []byte {
	if s, ok := v.(string); ok {
		if isPlainText(s) {
			return append(b, s...)
		}
		return strconv.AppendQuote(b, s)
	}
	return appendJSON(append(b, '#'), v)
}

// isPlainText says whether the text of a string is the string itself.
func isPlainText(s string) bool {
	for i := range len(s) {
		if !isPlainByte(s[i]) {
			return false
		}
	}
	return s != "" && s[0] != '#'
}

// isPlainByte says whether a byte has no other meaning in the text of a value or of
// a FieldSet.
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

// appendJSON appends a value as JSON. Keys are sorted, and equal numbers are written
// alike.
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
