package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/roperator/roperator/resource"
)

// A SyncRequest is a snapshot of a parent and its children. It is consistent
// with every write of this process, shared with nobody else, and safe to keep.
//
// It marshals to JSON and back, so that a request can be recorded and
// replayed. That includes the data of Secrets.
type SyncRequest struct {
	// Parent is never nil in a request of the engine.
	Parent *resource.Resource
	// Children are those of the configured types that belong to the parent,
	// the ones that are being deleted among them.
	Children Children
}

// requestJSON is a SyncRequest as JSON.
type requestJSON struct {
	Parent   json.RawMessage `json:"parent"`
	Children Children        `json:"children"`
}

// MarshalJSON returns {"parent": {…}, "children": [{…}, …]}.
func (r SyncRequest) MarshalJSON() ([]byte, error) {
	out := requestJSON{Parent: json.RawMessage("null"), Children: r.Children}
	if r.Parent != nil {
		parent, err := r.Parent.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("parent: %w", err)
		}
		out.Parent = parent
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (r *SyncRequest) UnmarshalJSON(data []byte) error {
	var in requestJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	request := SyncRequest{Children: in.Children}
	if len(in.Parent) > 0 && string(in.Parent) != "null" {
		parent, err := resource.New(in.Parent)
		if err != nil {
			return fmt.Errorf("request: parent: %w", err)
		}
		request.Parent = parent
	}
	*r = request
	return nil
}

// ParentAs decodes the parent into a new T, a struct or a pointer to one.
func ParentAs[T any](req *SyncRequest) (T, error) {
	if req == nil || req.Parent == nil {
		var none T
		return none, errors.New("request: no parent")
	}
	return resource.As[T](req.Parent)
}

// ChildrenAs yields the children of type t, each decoded into a new T, a
// struct or a pointer to one, in the order of [View.All]. One that can't be
// decoded is yielded with an error.
func ChildrenAs[T any](req *SyncRequest, t resource.Type) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if req == nil {
			return
		}
		for r := range req.Children.OfType(t).All() {
			if !yield(resource.As[T](r)) {
				return
			}
		}
	}
}
