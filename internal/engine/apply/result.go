package apply

import (
	"time"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// A Result is what became of one action. If Err is nil, and neither Wrote, Redundant,
// Accepted, Await, HeldBack, Absent nor Skipped is set, nothing was done: the namespace of the
// child is terminating.
type Result struct {
	Action *plan.Action       // the last action: the one planned, or the one that findings led to; read only
	Live   *resource.Resource // the child by the API server's last answer; nil: gone or not known

	Wrote     bool // the API server has persisted something
	Redundant bool // the API server has answered a write, and persisted nothing
	Absent    bool // of an action that is Sought: the child isn't there
	Taken     bool // of Absent: something else has the name
	Claimed   bool // an object that existed was given the operator's labels and the owner reference
	ShownNext bool // of a creation: the child was there, and the next pass shows it to the handler for the first time
	Accepted  bool // Live is what the API server makes of the desired state
	Await     bool // somebody else was faster, and the newer state will arrive by watch
	Held      bool // of Err: nothing was sent, since others of its batch are rejected
	HeldBack  bool // nothing was done, since the child's namespace is a desired child too and isn't the parent's
	Parked    bool // of Await: the change that ends the wait wakes the parent, without a timer
	Elsewhere bool // the name is that of a child of a parent of another shard, so that no watch tells when it is free

	Took time.Duration // from the first request of the action on, until it was over

	Undeleted bool // of Err: an object is there that the API server has answered to have deleted

	Untried error // of a child that was recreated: why the API server wasn't asked first whether it takes the new state

	Rest    []merge.Difference // of Accepted: the fields in which Live differs from the desired state
	Ignored []merge.Difference // of an update: the fields that the API server has left as they were, without a word
	Err     error              // starts with the child and the verb, and shows no value of a Secret

	answer    error // the API server's, of which Err tells
	creatable bool  // of a refused update: the API server would take the desired state as that of a new object

	// The fields below are those of a dry run.

	Skipped bool               // a write was left out
	Would   plan.Verb          // the verb of that write
	Fields  []plan.FieldChange // the fields that the write would have changed
	Untold  bool               // a dry run that would have told more wasn't taken, or wasn't sent
	Found   *Found             // the object that would become a child, or one with the right owner; nil: none
}

// A Found is an object that would be taken over, or whose owner reference would be mended. The next
// pass decides what else becomes of it. If it was found in the course of a creation, the handler is
// shown it then for the first time.
type Found struct {
	Live   *resource.Resource // as a child
	Fields []plan.FieldChange // what would make it one
	Untold bool               // see Result
}

// Did returns what was done: the verb of the action, but for a creation that took an object
// over that was there.
func (r *Result) Did() plan.Verb {
	if r.Claimed {
		return plan.VerbAdopt
	}
	return r.Action.Verb
}

// A Report is what became of a plan.
type Report struct {
	Results     []Result                    // one for each action that was begun, in the order of the types
	Terminating []string                    // the namespaces in which nothing can be created: they are being deleted
	FirstWrite  time.Time                   // when the first write was answered; zero: nothing was written
	Held        map[plan.Batch]plan.HeldNow // the batches that are held; nil: none is
}
