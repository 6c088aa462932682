// Package jsonvalue decodes JSON that is known to be valid and without spaces
// into the values of unstructured.Unstructured: what the API server has sent
// and a scanner has looked through, or what encoding/json has written. Knowing
// that, it needs no reflection and a third of the time.
package jsonvalue

import (
	"encoding/json"
	"strings"
)

// Decode returns the value of text: objects are map[string]any of their own,
// lists []any, numbers what number makes of them. Strings without escapes are
// part of text, which they keep in memory. The last of several members with
// one key counts. The only errors are number's; text that is not valid or has
// spaces gives anything, or a panic.
func Decode(text string, number func(text string) (any, error)) (any, error) {
	r := reader{text: text, number: number}
	return r.value()
}

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

// Escaped says whether what follows text, which is within a string, is escaped
// by a backslash.
func Escaped[T string | []byte](text T) bool {
	backslashes := 0
	for backslashes < len(text) && text[len(text)-1-backslashes] == '\\' {
		backslashes++
	}
	return backslashes%2 == 1
}

// Unquote returns the value of a valid JSON string that is given without its
// quotes.
func Unquote(inner string) string {
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	quoted := make([]byte, 0, len(inner)+2)
	quoted = append(append(append(quoted, '"'), inner...), '"')
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return "" // can't be: it is valid
	}
	return text
}
