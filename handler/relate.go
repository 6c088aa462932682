package handler

import "github.com/roperator/roperator/resource"

// AllNamespaces as the Namespace of a Ref means every namespace.
const AllNamespaces = "*"

// A Relater is a Handler that says what a parent refers to: objects that Sync and
// Finalize look at and that aren't the parent's children, such as the Secret that its
// spec names. What one says is shown to the Handler as SyncRequest.Related.
//
// What the parent names in fields of its own needs no Relater: see the Fields of
// config.Related.
type Relater interface {
	// Relate returns what a parent refers to. It is a function of the parent alone,
	// and called whenever the parent has changed. It must return soon: it has no
	// context. A call that takes longer than config.Operator.HandlerTimeout fails the
	// reconciliation. It isn't repeated for the parent before it has returned. References of a type that isn't among config.Operator.Related, to a
	// namespace that they must not reach, or by a name that can't be one, fail the
	// parent's pass with an error that says so, as an error of Relate does.
	Relate(parent *resource.Resource) ([]Ref, error)
}

// A Ref refers to an object by its name, to the objects that a label selector matches,
// or, without Name and Selector, to all objects of a type. What a Ref refers to needn't
// exist.
type Ref struct {
	// Type is one of config.Operator.Related.
	Type resource.Type
	// Namespace is where the objects are. Empty means the parent's own. Another one, or
	// AllNamespaces, is only for types whose config.Related says AnyNamespace.
	// It is ignored if the type is cluster-scoped.
	Namespace string
	// Name is the name of one object.
	Name string
	// Selector is a label selector, "tier=gold,!legacy". Beside Name it must be empty.
	Selector string
}

// Relates says whether a Handler says what parents refer to: a Funcs does if its RelateFunc is
// set, and any other Relater does, unless it has a method Relates() bool that says otherwise
// (Handlers that wrap another one pass the question on to it).
func Relates(h Handler) bool {
	switch h := h.(type) {
	case Funcs:
		return h.RelateFunc != nil
	case *Funcs:
		return h.RelateFunc != nil
	case interface{ Relates() bool }:
		return h.Relates()
	}
	_, relates := h.(Relater)
	return relates
}

// Relate returns what a parent refers to by what the Handler says of it: nothing if the
// Handler isn't a Relater. Handlers that wrap another one pass the question on by it.
func Relate(h Handler, parent *resource.Resource) ([]Ref, error) {
	if r, ok := h.(Relater); ok {
		return r.Relate(parent)
	}
	return nil, nil
}
