package jsonvalue

import (
	"encoding/json"
	"strings"
)

// Decode returns the value of text, which must be valid JSON without spaces. Any
// other text gives any value, or a panic. Objects are new maps, lists new slices,
// and a number is what the function number returns for its text. Decode returns an
// error only if number does.
//
// A string without escapes is a part of text, and so keeps text in memory. If an
// object has a key several times, the last value counts.
func Decode(text string, number func(text string) (any, error)) (any, error) {
	r := reader{text: text, number: number}
	return r.value()
}

// A reader decodes a text from pos on. After a method has returned without error,
// pos is behind the value.
type reader struct {
	text   string
	pos    int
	number func(string) (any, error)
}

func (r *reader) value() (any, error) {
	switch r.text[r.pos] {
	case '"':
		return r.string(), nil
	case '{':
		return r.object()
	case '[':
		return r.list()
	case 't':
		r.pos += len("true")
		return true, nil
	case 'f':
		r.pos += len("false")
		return false, nil
	case 'n':
		r.pos += len("null")
		return nil, nil
	}
	start := r.pos
	for r.pos < len(r.text) && !isDelimiter(r.text[r.pos]) {
		r.pos++
	}
	return r.number(r.text[start:r.pos])
}

// isDelimiter says whether a byte ends a number or a literal.
func isDelimiter(c byte) bool { return c == ',' || c == '}' || c == ']' }

func (r *reader) object() (any, error) {
	out := map[string]any{}
	for r.pos++; r.text[r.pos] != '}'; {
		if r.text[r.pos] == ',' {
			r.pos++
		}
		key := r.string()
		r.pos++ // the colon
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		out[key] = value
	}
	r.pos++
	return out, nil
}

func (r *reader) list() (any, error) {
	out := []any{}
	for r.pos++; r.text[r.pos] != ']'; {
		if r.text[r.pos] == ',' {
			r.pos++
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	r.pos++
	return out, nil
}

func (r *reader) string() string {
	start := r.pos + 1
	end := start + strings.IndexByte(r.text[start:], '"')
	if strings.IndexByte(r.text[start:end], '\\') < 0 {
		r.pos = end + 1
		return r.text[start:end]
	}
	for r.text[end] != '"' || Escaped(r.text[start:end]) {
		end++
		end += strings.IndexByte(r.text[end:], '"')
	}
	r.pos = end + 1
	return Unquote(r.text[start:end])
}

// Escaped says whether a backslash escapes the byte that follows text. The byte is in
// a JSON string, and text must reach back to the start of that string.
func Escaped[T string | []byte](text T) bool {
	backslashes := 0
	for backslashes < len(text) && text[len(text)-1-backslashes] == '\\' {
		backslashes++
	}
	return backslashes%2 == 1
}

// Unquote returns the value of a JSON string. inner is the string's text without its
// quotes, and must be valid.
func Unquote(inner string) string {
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	quoted := make([]byte, 0, len(inner)+2)
	quoted = append(append(append(quoted, '"'), inner...), '"')
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return "" // can't be: inner is valid
	}
	return text
}
