package client

import (
	"bytes"
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
// the entries. Entries of subresources don't count. object is valid JSON.
func (h *heldFields) read(object []byte) []string {
	if !h.wanted.Load() {
		return nil
	}
	var out []string
	for entry := range items(find(find(object, "metadata"), "managedFields")) {
		if fields := h.fieldsOf(entry); len(fields) > 0 {
			out = append(out, string(fields))
		}
	}
	return out
}

// fieldsOf returns the fieldsV1 of an entry of managedFields, nothing if the entry is of
// another manager or of a subresource.
func (h *heldFields) fieldsOf(entry []byte) (fields []byte) {
	own := false
	for m := membersOf(entry); m.next(); {
		switch string(m.name) {
		case "manager":
			name, _ := stringAt(m.value(), 0)
			own = string(name) == h.manager || bytes.IndexByte(name, '\\') >= 0 && jsonvalue.Unquote(string(name)) == h.manager
			if !own {
				return nil
			}
		case "subresource":
			return nil
		case "fieldsV1":
			fields = m.value()
		}
	}
	if !own {
		return nil
	}
	return fields
}
