// Package store holds the newest known state of every object that one operator
// watches: its parents, and the objects that carry the operator's labels. An
// index leads from a parent's UID to the parent's children.
//
//	s := store.New(parentType, trackingLabel)
//	change := s.Observe(store.Stream{Type: parentType}, parent) // a watch event
//	w := s.Begin(store.Request{Ref: ref, Parent: parent.UID()}) // an own write
//	change = w.End(&store.Response{Live: child})                // and the response to it
//	parent, children := s.Family(parent.UID())                  // what a pass works on
//
// # The gate
//
// The store has two sources: the watches, and the API server's responses to the
// operator's own writes. Both pass the same gate: a state enters only if its
// resourceVersion is newer than that of the state held. Whatever order the
// states arrive in, no reader ever sees a state older than one that this process
// has written.
//
// # Own writes
//
// A Change names the parents to reconcile. Whether an own write arrives by the watch or in
// the response first, it does not name the parent that has written: see Write.
//
// # Held fields
//
// The resources come without managedFields. Only of the children in the first lists
// the store holds the operator's own entries, until a child's first pass: they tell
// whether somebody else has changed the child while no operator ran. See HoldFields.
//
// # Ownership
//
// A Store owns its maps and guards them with one mutex, under which it takes no
// other. Its methods may be called concurrently. The resources in it are
// immutable and shared with every reader. The package starts no goroutine, makes
// no request and reads no clock.
//
// It imports resource, internal/object and apimachinery's types. It must import
// neither client-go nor another package of the engine.
package store
