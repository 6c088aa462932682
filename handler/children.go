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

// Children are the observed children of a parent. They are immutable and may
// be used by any number of goroutines. The zero Children are none.
type Children struct {
	all    []*resource.Resource // sorted
	byType map[resource.Type]View
}

// A View is the children of one type. The zero View is none.
type View struct {
	all []*resource.Resource // sorted
}

// NewChildren returns the given children. Nil ones are left out; of several
// with the same type and key the last one counts.
func NewChildren(children ...*resource.Resource) Children {
	if len(children) == 0 {
		return Children{}
	}
	all := make([]*resource.Resource, 0, len(children))
	for _, child := range children {
		if child != nil {
			all = append(all, child)
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
	return Children{all: all, byType: byType}
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

// compareKey orders the children of one type by namespace and name.
func compareKey(child *resource.Resource, key types.NamespacedName) int {
	return cmp.Or(strings.Compare(child.Namespace(), key.Namespace), strings.Compare(child.Name(), key.Name))
}

// lastOfEqual removes all but the last of equal neighbours, in place.
func lastOfEqual(sorted []*resource.Resource) []*resource.Resource {
	kept := sorted[:0]
	for i, child := range sorted {
		if i+1 < len(sorted) && compare(child, sorted[i+1]) == 0 {
			continue
		}
		kept = append(kept, child)
	}
	return kept
}

// OfType returns the children of type t.
func (c Children) OfType(t resource.Type) View { return c.byType[t] }

// All yields the children ordered by type, namespace and name.
func (c Children) All() iter.Seq[*resource.Resource] { return slices.Values(c.all) }

// Len returns the number of children.
func (c Children) Len() int { return len(c.all) }

// Find returns the child with the same type, namespace and name as obj, which
// is anything that may be returned as a child. If obj leaves its namespace out,
// as it may where the parent is namespaced, then the only child with its type
// and name is found. Find returns false if there is none, or if obj doesn't
// say its type and name.
func (c Children) Find(obj any) (*resource.Resource, bool) {
	t, key, err := encode.Identity(obj)
	if err != nil {
		return nil, false
	}
	view := c.OfType(t)
	child, ok := view.Get(key.Namespace, key.Name)
	if ok || key.Namespace != "" {
		return child, ok
	}
	return view.named(key.Name)
}

// named returns the only child with the name, in whatever namespace.
func (v View) named(name string) (found *resource.Resource, ok bool) {
	for _, child := range v.all {
		if child.Name() != name {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = child
	}
	return found, found != nil
}

// MarshalJSON returns a list of the objects, in the order of All.
func (c Children) MarshalJSON() ([]byte, error) {
	if len(c.all) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(c.all)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (c *Children) UnmarshalJSON(data []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("children: %w", err)
	}
	all := make([]*resource.Resource, len(raw))
	for i, object := range raw {
		child, err := resource.New(object)
		if err != nil {
			return fmt.Errorf("children[%d]: %w", i, err)
		}
		all[i] = child
	}
	*c = NewChildren(all...)
	return nil
}

// Get returns the child with the namespace and name; the namespace of a
// cluster-scoped child is empty.
func (v View) Get(namespace, name string) (*resource.Resource, bool) {
	i, ok := slices.BinarySearchFunc(v.all, types.NamespacedName{Namespace: namespace, Name: name}, compareKey)
	if !ok {
		return nil, false
	}
	return v.all[i], true
}

// First returns the first child in the order of All, false if there is none.
func (v View) First() (*resource.Resource, bool) {
	if len(v.all) == 0 {
		return nil, false
	}
	return v.all[0], true
}

// All yields the children ordered by namespace and name.
func (v View) All() iter.Seq[*resource.Resource] { return slices.Values(v.all) }

// Len returns the number of children.
func (v View) Len() int { return len(v.all) }

// Exists says whether there is a child with the namespace and name.
func (v View) Exists(namespace, name string) bool {
	_, ok := v.Get(namespace, name)
	return ok
}
