package client

import (
	"strings"
	"sync/atomic"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// An observing says what is kept of the objects that lists and watches deliver. A nil
// *observing keeps all but managedFields.
type observing struct {
	held    heldFields
	shorten func(*resource.Resource) *resource.Resource // nil: every object is kept as it is
}

// object returns what is kept of an object, of which data is the JSON.
func (o *observing) object(res *resource.Resource, data []byte) *WireObject {
	if o == nil {
		return &WireObject{Resource: res}
	}
	if o.shorten != nil {
		if short := o.shorten(res); short != res {
			return &WireObject{Resource: short}
		}
	}
	return &WireObject{Resource: res, held: o.held.read(data)}
}

// A heldFields reads from observed objects which fields one manager owns, while that
// is wanted. A resource.Resource leaves managedFields out.
type heldFields struct {
	manager string
	wanted  atomic.Bool
}

// read returns the fieldsV1 of the manager's entries in an object, in the order of
// the entries. Entries of subresources don't count. object is valid JSON. With
// spaces in it, which no API server writes, nothing is read.
func (h *heldFields) read(object []byte) []string {
	if !h.wanted.Load() {
		return nil
	}
	text := strings.TrimSpace(string(object))
	if !isCompact(text) {
		return nil
	}
	var out []string
	for entry := range items(member(member(text, "metadata"), "managedFields")) {
		manager := member(entry, "manager")
		if len(manager) < 2 || jsonvalue.Unquote(manager[1:len(manager)-1]) != h.manager || member(entry, "subresource") != "" {
			continue
		}
		if fields := member(entry, "fieldsV1"); fields != "" {
			out = append(out, strings.Clone(fields))
		}
	}
	return out
}

// isCompact says whether valid JSON has no spaces outside of strings.
func isCompact(text string) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
			return false
		case '"':
			i = jsonvalue.Skip(text, i) - 1
		}
	}
	return true
}

// member returns the value of a member of an object, "" if there is none. object is
// valid JSON without spaces, or empty.
func member(object, name string) string {
	if object == "" || object[0] != '{' {
		return ""
	}
	for i := 1; object[i] != '}'; {
		if object[i] == ',' {
			i++
		}
		colon := jsonvalue.Skip(object, i)
		end := jsonvalue.Skip(object, colon+1)
		if object[i+1:colon-1] == name {
			return object[colon+1 : end]
		}
		i = end
	}
	return ""
}

// items yields the items of a list. list is valid JSON without spaces, or empty.
func items(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if list == "" || list[0] != '[' {
			return
		}
		for i := 1; list[i] != ']'; {
			if list[i] == ',' {
				i++
			}
			end := jsonvalue.Skip(list, i)
			if !yield(list[i:end]) {
				return
			}
			i = end
		}
	}
}
