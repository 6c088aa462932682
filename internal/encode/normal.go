package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/roperator/roperator/resource"
)

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10000

// A fieldError is an error about one field of an object.
type fieldError struct {
	path []string // innermost first
	err  error
}

func (e *fieldError) Error() string {
	var path strings.Builder
	for _, step := range slices.Backward(e.path) {
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
			return nil, errors.New("the string is not valid UTF-8")
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("the number is infinite or not a number")
		}
		return v, nil
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
		if v == nil {
			return nil, nil
		}
		data, err := v.MarshalJSON()
		if err != nil {
			return nil, err
		}
		return decode(data)
	case []byte:
		if depth == 0 {
			return decode(v)
		}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return decode(data)
}

func copyMap(object map[string]any, depth int) (any, error) {
	out := make(map[string]any, len(object))
	for key, item := range object {
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

func number(n json.Number) (any, error) {
	text := n.String()
	if !strings.ContainsAny(text, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("the integer is beyond 64 bits")
		}
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, errors.New("the number is beyond a float64")
	}
	return f, nil
}
