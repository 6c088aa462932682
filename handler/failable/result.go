package failable

// An Outcome is how far a pass over a parent got. Its text is in CamelCase, fit
// for the reason of a status condition.
type Outcome string

// The outcomes of a pass. The first three are failures.
const (
	ValidationFailed  Outcome = "ValidationFailed"  // Validate returned an error
	SyncFailed        Outcome = "SyncFailed"        // SyncChildren returned an error
	FinalizeFailed    Outcome = "FinalizeFailed"    // Finalize returned an error
	SyncSucceeded     Outcome = "SyncSucceeded"     // Validate and SyncChildren returned no error
	FinalizeSucceeded Outcome = "FinalizeSucceeded" // Finalize returned no error: the parent goes
)

// A Result is what became of the steps before DetermineStatus. That a sync
// succeeded means that the Handler knew what it wanted: the children are
// written after that.
type Result[V any] struct {
	outcome   Outcome
	validated V
	err       error
}

// Outcome returns how far the pass got.
func (r Result[V]) Outcome() Outcome { return r.outcome }

// OK reports whether no step failed.
func (r Result[V]) OK() bool { return r.err == nil }

// Err returns the error of the step that failed, just as that returned it; nil
// if none failed.
func (r Result[V]) Err() error { return r.err }

// Validated returns what Validate returned. It is false if that failed, and
// for a parent that is being deleted, which isn't validated.
func (r Result[V]) Validated() (V, bool) {
	return r.validated, r.outcome == SyncFailed || r.outcome == SyncSucceeded
}
