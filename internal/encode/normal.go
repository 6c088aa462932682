package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10000

// maxPath is how much of a path an error shows, in bytes.
const maxPath = 500

// A fieldError is an error about one field of an object.
type fieldError struct {
	path []string // innermost first
	err  error
}

func (e *fieldError) Error() string {
	var path strings.Builder
	for _, step := range slices.Backward(e.path) {
		if path.Len() > maxPath {
			path.WriteString("…")
			break
		}
		if path.Len() > 0 && !strings.HasPrefix(step, "[") {
			path.WriteByte('.')
		}
		path.WriteString(step)
	}
	if path.Len() == 0 {
		return e.err.Error()
	}
	return path.String() + ": " + e.err.Error()
}

func (e *fieldError) Unwrap() error { return e.err }

// within adds the step that led to the value which err is about.
func within(step string, err error) error {
	var field *fieldError
	if !errors.As(err, &field) {
		field = &fieldError{err: err}
	}
	field.path = append(field.path, step)
	return field
}

// normal returns a fresh copy of a value, of the types that
// unstructured.Unstructured uses. What has another type goes through its JSON.
func normal(value any) (any, error) { return copyValue(value, 0) }

func copyValue(value any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deep")
	}
	switch v := value.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errNotUTF8()
		}
		return v, nil
	case float64:
		return float(v)
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case json.Number:
		return number(v)
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		return copyMap(v, depth)
	case []any:
		if v == nil {
			return nil, nil
		}
		return copyList(v, depth)
	case *resource.Resource:
		return copyResource(v)
	case json.RawMessage:
		return decodeUTF8(v)
	case []byte:
		if depth == 0 {
			return decodeUTF8(v)
		}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, guard.Error(err) // of a MarshalJSON, perhaps
	}
	return decodeMarshalled(data)
}

// exact is the largest float64 below which every whole number has a float64 of its
// own.
const exact = 1 << 53

// float returns the number that the API server reads where f is written. That is an
// int64 if f has no fraction, and 2 and 2.0 are the same. Beyond 2^53 only the digits
// that tell f from other floats are written, and zeros after them, so that the API
// server may read another integer than the nearest to f.
func float(f float64) (any, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, errors.New("the number is infinite or not a number")
	case math.Trunc(f) != f:
		return f, nil
	case math.Abs(f) < exact:
		return int64(f), nil
	}
	if i, err := strconv.ParseInt(floatText(f), 10, 64); err == nil {
		return i, nil
	}
	return f, nil
}

// floatText returns the text of a whole float, as encoding/json has it for those
// below 1e21.
func floatText(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func copyResource(res *resource.Resource) (any, error) {
	if res == nil {
		return nil, nil
	}
	data, err := res.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return decodeCompact(data)
}

// marshalled says whether normal makes a value of what encoding/json has made of
// it.
func marshalled(value any) bool {
	switch value.(type) {
	case map[string]any, []any, *resource.Resource, json.RawMessage, []byte, json.Number:
		return false
	}
	return true
}

// decodeMarshalled decodes what encoding/json has made of a value.
func decodeMarshalled(data []byte) (any, error) {
	decoded, err := decodeCompact(data)
	if err == nil && replaced(data) {
		err = notUTF8(decoded)
	}
	if err != nil {
		return nil, err
	}
	return decoded, nil
}

// decodeUTF8 decodes JSON that nobody has validated yet: encoding/json would
// replace what isn't UTF-8.
func decodeUTF8(data []byte) (any, error) {
	if len(data) == 0 {
		data = []byte("null")
	}
	if !utf8.Valid(data) {
		return nil, errors.New("the JSON is not valid UTF-8")
	}
	return decode(data)
}

// replaced says whether encoding/json met bytes that are not UTF-8. It writes
// an escaped U+FFFD for them, and one that was there unescaped.
func replaced(data []byte) bool {
	const escaped = `\ufffd`
	for from := 0; ; {
		at := bytes.Index(data[from:], []byte(escaped))
		if at < 0 {
			return false
		}
		at += from
		backslashes := 0
		for backslashes < at && data[at-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return true
		}
		from = at + len(escaped)
	}
}

// notUTF8 names the first string in which bytes were replaced.
func notUTF8(value any) error {
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, utf8.RuneError) {
			return errNotUTF8()
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if strings.ContainsRune(key, utf8.RuneError) {
				return within(step(key), errNotUTF8())
			}
			if err := notUTF8(v[key]); err != nil {
				return within(step(key), err)
			}
		}
	case []any:
		for i, item := range v {
			if err := notUTF8(item); err != nil {
				return within("["+strconv.Itoa(i)+"]", err)
			}
		}
	}
	return nil
}

func errNotUTF8() error { return errors.New("the string is not valid UTF-8") }

func copyMap(object map[string]any, depth int) (any, error) {
	out := make(map[string]any, len(object))
	for key, item := range object {
		if !utf8.ValidString(key) {
			return nil, within(step(key), errNotUTF8())
		}
		value, err := copyValue(item, depth+1)
		if err != nil {
			return nil, within(step(key), err)
		}
		out[key] = value
	}
	return out, nil
}

func copyList(list []any, depth int) (any, error) {
	out := make([]any, len(list))
	for i, item := range list {
		value, err := copyValue(item, depth+1)
		if err != nil {
			return nil, within("["+strconv.Itoa(i)+"]", err)
		}
		out[i] = value
	}
	return out, nil
}

// step is how a key shows in a path.
func step(key string) string {
	if key == "" || strings.ContainsAny(key, `.[]"`) {
		return "[" + strconv.Quote(key) + "]"
	}
	return key
}

// decodeCompact decodes what encoding/json has encoded, numbers without loss.
func decodeCompact(data []byte) (any, error) {
	value, err := jsonvalue.Decode(string(data), func(text string) (any, error) { return number(json.Number(text)) })
	if err != nil {
		return decode(data) // which says where
	}
	return value, nil
}

// decode decodes JSON, numbers without loss.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("JSON: something follows the value")
	}
	return numbers(value)
}

// numbers replaces each json.Number in a value, in place.
func numbers(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		for key, item := range v {
			switch item.(type) {
			case json.Number, map[string]any, []any:
				changed, err := numbers(item)
				if err != nil {
					return nil, within(step(key), err)
				}
				v[key] = changed
			}
		}
	case []any:
		for i, item := range v {
			changed, err := numbers(item)
			if err != nil {
				return nil, within("["+strconv.Itoa(i)+"]", err)
			}
			v[i] = changed
		}
	}
	return value, nil
}

// number returns the number that the API server reads where n is written. An integer
// beyond 64 bits is an error, unless it is the text of a float64.
func number(n json.Number) (any, error) {
	text := n.String()
	whole := !strings.ContainsAny(text, ".eE")
	if whole {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case whole && (err != nil || floatText(f) != text):
		return nil, errors.New("the integer is beyond 64 bits")
	case err != nil:
		return nil, errors.New("the number is beyond a float64")
	}
	return float(f)
}
