package jsonvalue

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Append appends the JSON text of v: compact, with sorted keys, and without escapes
// for HTML. The text is the same as that of encoding/json with SetEscapeHTML(false).
// It takes reflection only for values of other types than those of
// unstructured.Unstructured. Append returns an error for a value that JSON doesn't
// have, such as NaN or a function.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		return appendFloat(dst, v)
	case map[string]any:
		return appendObject(dst, v)
	case []any:
		return appendList(dst, v)
	}
	raw, err := json.Marshal(v)
	return append(dst, raw...), err
}

func appendObject(dst []byte, object map[string]any) ([]byte, error) {
	if object == nil {
		return append(dst, "null"...), nil
	}
	var scratch [16]string // the keys of most objects
	keys := scratch[:0]
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, key), ':')
		var err error
		if dst, err = Append(dst, object[key]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendList(dst []byte, list []any) ([]byte, error) {
	if list == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	for i, item := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = Append(dst, item); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendFloat appends a number in the format of ECMAScript, as encoding/json does.
func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, &json.UnsupportedValueError{Value: reflect.ValueOf(f), Str: strconv.FormatFloat(f, 'g', -1, 64)}
	}
	if size := math.Abs(f); size == 0 || 1e-6 <= size && size < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64), nil
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' { // e-09
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst, nil
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string. Bytes that aren't UTF-8 become
// U+FFFD.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	plain := 0 // the start of the bytes that aren't appended yet and need no escape
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(append(dst, text[plain:i]...), `\ufffd`...)
				plain = i + size
			case r == '\u2028' || r == '\u2029': // not allowed in strings of JavaScript
				dst = append(append(dst, text[plain:i]...), `\u202`...)
				dst = append(dst, hexDigits[r&0xf])
				plain = i + size
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(append(dst, text[plain:i]...), '\\')
		switch c {
		case '"', '\\':
			dst = append(dst, c)
		case '\b':
			dst = append(dst, 'b')
		case '\f':
			dst = append(dst, 'f')
		case '\n':
			dst = append(dst, 'n')
		case '\r':
			dst = append(dst, 'r')
		case '\t':
			dst = append(dst, 't')
		default:
			dst = append(dst, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		plain = i
	}
	return append(append(dst, text[plain:]...), '"')
}
