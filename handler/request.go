package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A SyncRequest is a snapshot of a parent, its children, and what it refers to. Parent
// and children are consistent with every write of this process. The request is shared
// with nobody else, and safe to keep.
//
// It marshals to JSON and back, so that a request can be recorded and
// replayed. That includes the data of Secrets.
type SyncRequest struct {
	// Parent is never nil in a request of the engine.
	Parent *resource.Resource
	// Children are those of the configured types that belong to the parent,
	// the ones that are being deleted among them.
	Children Children
	// Related are the objects that the parent refers to and that exist: by the
	// Fields of config.Operator.Related, and by what Relate returns. Every reference
	// has been looked up: what isn't here doesn't exist.
	Related Objects
	// LastErrors tells which children the parent's last pass couldn't write, and
	// why. It is empty once a pass has succeeded, and after a restart. A pass in
	// which the handler failed leaves it as it was.
	LastErrors []ChildError
}

// A ChildError tells of one child that couldn't be written. It quotes no value
// of a Secret.
type ChildError struct {
	Type resource.Type
	Key  types.NamespacedName
	// Verb is what was to be done: create, update, apply, recreate or delete.
	Verb string
	// Reason is the API server's metav1.StatusReason, such as Invalid or
	// Forbidden. It is AlreadyExists if an object that isn't the operator's has
	// the child's name, and empty if no answer of the API server has a reason.
	Reason string
	// Message is the API server's answer, in words.
	Message string
}

// requestJSON is a SyncRequest as JSON.
type requestJSON struct {
	Parent     json.RawMessage `json:"parent"`
	Children   json.RawMessage `json:"children"`
	Related    json.RawMessage `json:"related,omitempty"`
	LastErrors []ChildError    `json:"lastErrors,omitempty"`
}

// childErrorJSON is a ChildError as JSON.
type childErrorJSON struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Verb       string `json:"verb"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
}

// MarshalJSON returns {"apiVersion": …, "kind": …, "namespace": …, "name": …,
// "verb": …, "reason": …, "message": …}, without what is empty.
func (e ChildError) MarshalJSON() ([]byte, error) {
	return json.Marshal(childErrorJSON{e.Type.APIVersion, e.Type.Kind, e.Key.Namespace, e.Key.Name, e.Verb, e.Reason, e.Message})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (e *ChildError) UnmarshalJSON(data []byte) error {
	var in childErrorJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("child error: %w", err)
	}
	*e = ChildError{
		Type: resource.Type{APIVersion: in.APIVersion, Kind: in.Kind},
		Key:  types.NamespacedName{Namespace: in.Namespace, Name: in.Name},
		Verb: in.Verb, Reason: in.Reason, Message: in.Message,
	}
	return nil
}

// MarshalJSON returns {"parent": {…}, "children": [{…}, …], "related": [{…}, …],
// "lastErrors": [{…}, …]}, without related and lastErrors if there are none.
func (r SyncRequest) MarshalJSON() ([]byte, error) {
	out := requestJSON{Parent: json.RawMessage("null"), LastErrors: r.LastErrors}
	var err error
	if r.Parent != nil {
		if out.Parent, err = r.Parent.MarshalJSON(); err != nil {
			return nil, fmt.Errorf("parent: %w", err)
		}
	}
	if out.Children, err = r.Children.MarshalJSON(); err != nil {
		return nil, fmt.Errorf("children: %w", err)
	}
	if r.Related.Len() > 0 {
		if out.Related, err = r.Related.MarshalJSON(); err != nil {
			return nil, fmt.Errorf("related: %w", err)
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (r *SyncRequest) UnmarshalJSON(data []byte) error {
	var in requestJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	request := SyncRequest{LastErrors: in.LastErrors}
	var err error
	if request.Children, err = readObjects("children", in.Children); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if request.Related, err = readObjects("related", in.Related); err != nil {
		return fmt.Errorf("request: %w", err)
	}
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
		if req != nil {
			eachAs(req.Children.OfType(t), yield)
		}
	}
}

// RelatedAs is ChildrenAs for the objects of type t that the parent refers to.
func RelatedAs[T any](req *SyncRequest, t resource.Type) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if req != nil {
			eachAs(req.Related.OfType(t), yield)
		}
	}
}

// eachAs calls yield with each object, decoded into a new T, until yield returns false.
func eachAs[T any](objects View, yield func(T, error) bool) {
	for r := range objects.All() {
		if !yield(resource.As[T](r)) {
			return
		}
	}
}
