package handler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
)

// Objects are objects as the API server has them: a parent's children, or what it
// refers to. They are immutable and may be used by any number of goroutines. The zero
// Objects are none.
type Objects struct {
	all    []*resource.Resource // sorted
	byType map[resource.Type]View
}

// Children are the observed children of a parent.
type Children = Objects

// A View is the objects of one type. The zero View is none.
type View struct {
	all []*resource.Resource // sorted
}

// NewChildren returns the given children, as NewObjects does.
func NewChildren(children ...*resource.Resource) Children { return NewObjects(children...) }

// NewObjects returns the given objects. Nil ones are left out; of several with the
// same type and key the last one counts.
func NewObjects(objects ...*resource.Resource) Objects {
	if len(objects) == 0 {
		return Objects{}
	}
	all := make([]*resource.Resource, 0, len(objects))
	for _, object := range objects {
		if object != nil {
			all = append(all, object)
		}
	}
	if !slices.IsSortedFunc(all, compare) {
		slices.SortStableFunc(all, compare)
	}
	all = lastOfEqual(all)
	byType := make(map[resource.Type]View)
	for start := 0; start < len(all); {
		t := all[start].Type()
		end := start + 1
		for end < len(all) && all[end].Type() == t {
			end++
		}
		byType[t] = View{all[start:end:end]}
		start = end
	}
	return Objects{all: all, byType: byType}
}

// compare orders by type, namespace and name.
func compare(a, b *resource.Resource) int {
	if s, t := a.Type(), b.Type(); s != t {
		return cmp.Or(strings.Compare(s.APIVersion, t.APIVersion), strings.Compare(s.Kind, t.Kind))
	}
	if c := strings.Compare(a.Namespace(), b.Namespace()); c != 0 {
		return c
	}
	return strings.Compare(a.Name(), b.Name())
}

// compareKey orders the objects of one type by namespace and name.
func compareKey(object *resource.Resource, key types.NamespacedName) int {
	return cmp.Or(strings.Compare(object.Namespace(), key.Namespace), strings.Compare(object.Name(), key.Name))
}

// lastOfEqual removes all but the last of equal neighbours, in place.
func lastOfEqual(sorted []*resource.Resource) []*resource.Resource {
	kept := sorted[:0]
	for i, object := range sorted {
		if i+1 < len(sorted) && compare(object, sorted[i+1]) == 0 {
			continue
		}
		kept = append(kept, object)
	}
	return kept
}

// OfType returns the objects of type t.
func (c Objects) OfType(t resource.Type) View { return c.byType[t] }

// All yields the objects ordered by type, namespace and name.
func (c Objects) All() iter.Seq[*resource.Resource] { return slices.Values(c.all) }

// Len returns the number of objects.
func (c Objects) Len() int { return len(c.all) }

// Find returns the object with the same type, namespace and name as obj, which
// is anything that may be returned as a child. If obj leaves its namespace out,
// as it may where the parent is namespaced, then the only object with its type
// and name is found. Find returns false if there is none, or if obj doesn't
// say its type and name.
func (c Objects) Find(obj any) (*resource.Resource, bool) {
	t, key, err := encode.Identity(obj)
	if err != nil {
		return nil, false
	}
	view := c.OfType(t)
	found, ok := view.Get(key.Namespace, key.Name)
	if ok || key.Namespace != "" {
		return found, ok
	}
	return view.named(key.Name)
}

// named returns the only object with the name, in whatever namespace.
func (v View) named(name string) (found *resource.Resource, ok bool) {
	for _, object := range v.all {
		if object.Name() != name {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = object
	}
	return found, found != nil
}

// MarshalJSON returns a list of the objects, in the order of All.
func (c Objects) MarshalJSON() ([]byte, error) {
	if len(c.all) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(c.all)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (c *Objects) UnmarshalJSON(data []byte) error {
	read, err := readObjects("objects", data)
	if err == nil {
		*c = read
	}
	return err
}

// readObjects reads a list of objects, of which errors speak by this name. No data is no
// object.
func readObjects(name string, data []byte) (Objects, error) {
	if len(data) == 0 {
		return Objects{}, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return Objects{}, fmt.Errorf("%s: %w", name, err)
	}
	all := make([]*resource.Resource, len(raw))
	for i, text := range raw {
		object, err := resource.New(text)
		if err != nil {
			return Objects{}, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		all[i] = object
	}
	return NewObjects(all...), nil
}

// Get returns the object with the namespace and name; the namespace of a
// cluster-scoped object is empty.
func (v View) Get(namespace, name string) (*resource.Resource, bool) {
	i, ok := slices.BinarySearchFunc(v.all, types.NamespacedName{Namespace: namespace, Name: name}, compareKey)
	if !ok {
		return nil, false
	}
	return v.all[i], true
}

// First returns the first object in the order of All, false if there is none.
func (v View) First() (*resource.Resource, bool) {
	if len(v.all) == 0 {
		return nil, false
	}
	return v.all[0], true
}

// All yields the objects ordered by namespace and name.
func (v View) All() iter.Seq[*resource.Resource] { return slices.Values(v.all) }

// Len returns the number of objects.
func (v View) Len() int { return len(v.all) }

// Exists says whether there is an object with the namespace and name.
func (v View) Exists(namespace, name string) bool {
	_, ok := v.Get(namespace, name)
	return ok
}
