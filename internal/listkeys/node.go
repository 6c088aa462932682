// Package listkeys knows of each kind what matters for comparing two of its
// objects: which lists are keyed and by what, which are sets or atomic, which
// objects are maps, which scalars have several spellings.
//
// For built-in kinds that comes from a table which was generated from an API
// server's OpenAPI; for others from the schema of their CRD.
package listkeys

import "slices"

// A Kind is what a value is.
type Kind uint8

// The kinds of a Node. In a struct each field has a Node of its own; in a map
// (additionalProperties) all values have the same.
const (
	Scalar Kind = iota
	Quantity
	IntOrString
	Struct
	Map
	List
)

// String returns the name of the kind.
func (k Kind) String() string {
	switch k {
	case Scalar:
		return "Scalar"
	case Quantity:
		return "Quantity"
	case IntOrString:
		return "IntOrString"
	case Struct:
		return "Struct"
	case Map:
		return "Map"
	case List:
		return "List"
	}
	return "unknown"
}

// A Node is the schema of one value. Nodes are immutable once returned, may be
// shared and may form cycles. A nil *Node is a value without schema, about
// which nothing is known.
type Node struct {
	Kind Kind
	// Fields are the fields of a Struct.
	Fields map[string]*Node
	// Zeros are the fields of a Struct of a built-in kind whose zero value equals none: its Go type drops it. They are sorted.
	Zeros []string
	// Closed is true for a Struct of a custom resource whose other fields the API server prunes.
	Closed bool
	// Elem is the schema of the items of a List or the values of a Map.
	Elem *Node
	// Keys identify the items of a List of objects: x-kubernetes-list-map-keys,
	// else x-kubernetes-patch-merge-key. None if the list has neither.
	Keys []string
	// PatchKey is x-kubernetes-patch-merge-key, which may differ from Keys:
	// the ports of a Service have the Keys port and protocol, and the PatchKey
	// port.
	PatchKey string
	// KeyDefaults are the values that the API server fills in for Keys that an
	// item lacks: protocol TCP.
	KeyDefaults map[string]any
	// Set is true for a List of scalars whose order doesn't count.
	Set bool
	// AnyOrder is true for a List with Keys whose order is known to mean nothing,
	// such as the ports of a Service.
	AnyOrder bool
	// UniqueNames is true for a List with Keys in which no two items may have the
	// same name, though the name isn't among the Keys: the ports of a Service.
	UniqueNames bool
	// SoleUnnamed is true for a List with UniqueNames in which only an item without
	// siblings may lack a name.
	SoleUnnamed bool
	// Atomic is true for a List, Map or Struct that has one owner: it is
	// compared and replaced whole.
	Atomic bool
	// RetainKeys is true for a Struct that is a union, or a List of them: an
	// update drops the fields which it doesn't mention
	// (x-kubernetes-patch-strategy).
	RetainKeys bool
}

// Field returns the schema of a field of a Struct or a value of a Map, nil if
// it is unknown. It may be called on nil.
func (n *Node) Field(name string) *Node {
	if n == nil {
		return nil
	}
	if field, ok := n.Fields[name]; ok {
		return field
	}
	if n.Kind == Map {
		return n.Elem
	}
	return nil
}

// Prunes reports whether the API server drops a field, whatever its value is. It may be called on nil.
func (n *Node) Prunes(name string) bool {
	if n == nil || !n.Closed {
		return false
	}
	_, ok := n.Fields[name]
	return !ok
}

// DropsZero reports whether a zero value of a field equals none. It may be called on nil.
func (n *Node) DropsZero(name string) bool {
	if n == nil {
		return false
	}
	_, ok := slices.BinarySearch(n.Zeros, name)
	return ok
}
