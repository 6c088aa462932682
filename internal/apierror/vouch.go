package apierror

import (
	"encoding/json"
	"strconv"
	"strings"
)

// object returns the object that was sent, nil if none was or if it isn't JSON.
func (r *Request) object() map[string]any {
	var object map[string]any
	if json.Unmarshal(r.Body, &object) != nil {
		return nil
	}
	return object
}

// hasField says whether a path, as an API server spells it, leads to something in a JSON
// value: by the fields of objects, such as metadata.labels, by their keys, such as
// data[tls.key], and by positions in lists. So every word of the path is a name that the
// value has: the path tells nothing that the names in the value don't.
func hasField(of any, path string) bool {
	if path == "" {
		return true
	}
	switch of := of.(type) {
	case map[string]any:
		for name, below := range of {
			if rest, ok := pastKey(path, name); ok && hasField(below, rest) {
				return true
			}
		}
	case []any:
		for i, item := range of {
			if rest, ok := strings.CutPrefix(path, "["+strconv.Itoa(i)+"]"); ok && hasField(item, strings.TrimPrefix(rest, ".")) {
				return true
			}
		}
	}
	return false
}

// pastKey returns the rest of a path that begins with a key of an object.
func pastKey(path, key string) (rest string, ok bool) {
	if rest, ok := strings.CutPrefix(path, "["+key+"]"); ok {
		return strings.TrimPrefix(rest, "."), true
	}
	rest, ok = strings.CutPrefix(path, key)
	if !ok || key == "" || rest != "" && rest[0] != '.' && rest[0] != '[' {
		return "", false
	}
	return strings.TrimPrefix(rest, "."), true
}
