package config

// An UpdateStrategy says what to do with a live child that differs from the
// desired one. It is chosen for each type of child, and has no default.
type UpdateStrategy string

const (
	// Replace updates the live object: it sends it back (PUT) with the
	// desired state merged in and with what is no longer desired removed,
	// guarded by its resourceVersion. What others have set stays.
	Replace UpdateStrategy = "Replace"
	// Recreate deletes the live object if the desired state has changed, waits until
	// it is gone, and creates it anew. It deletes nothing that the API server would refuse
	// to create in its new state, as dry runs tell. What another client has
	// changed is corrected as under Replace.
	Recreate UpdateStrategy = "Recreate"
	// OnDelete leaves the live object as it is. Once something else has
	// deleted it, it is created in its new state.
	OnDelete UpdateStrategy = "OnDelete"
	// Apply updates the live object by server-side apply, with the operator's
	// name as field manager, taking over fields from other managers. The object
	// becomes what it becomes under Replace, guarded by its resourceVersion. What
	// no apply can do, such as removing a field that the create had set, is done by
	// an update.
	Apply UpdateStrategy = "Apply"
)

// A TeardownPolicy says what becomes of the children of a parent that is being deleted.
type TeardownPolicy string

const (
	// TeardownGC leaves them to Kubernetes' garbage collector, which deletes them in no
	// particular order once the parent is gone.
	TeardownGC TeardownPolicy = ""
	// TeardownOrdered holds the parent by the operator's finalizer, and deletes its
	// children once the handler has finalized it: type by type, in the reverse of the order of
	// config.Operator.Children, each when the children of the types before are gone. A child
	// that finalizers hold doesn't hold up the types after its own, but the parent stays until it
	// is gone. A parent that is deleted with the propagation policy Orphan keeps its children.
	// With Foreground, the garbage collector deletes them as well, in no particular order.
	TeardownOrdered TeardownPolicy = "Ordered"
)

// A FinalizerPolicy says whether parents get the operator's finalizer, which
// delays their deletion until the handler's Finalize has succeeded.
type FinalizerPolicy string

const (
	// FinalizerAuto adds the finalizer if the handler has something to finalize. A
	// SyncFunc has nothing. Funcs, and the Handler that Typed returns, have something if
	// FinalizeFunc is set. Any other Handler has something, unless its method
	// Finalizes() bool returns false. The finalizer is also added if Teardown is
	// TeardownOrdered or a Child has Retain.
	FinalizerAuto FinalizerPolicy = ""
	// FinalizerAlways adds the finalizer whatever the handler is.
	FinalizerAlways FinalizerPolicy = "Always"
	// FinalizerNever adds no finalizer, and removes it where it is found.
	FinalizerNever FinalizerPolicy = "Never"
)
