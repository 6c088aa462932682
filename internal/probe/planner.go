package probe

import (
	"context"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// AttachPlanner is called by the runner when it is made.
func (p *Probe) AttachPlanner(planner Planner) { p.planner = planner }

// Planner returns what the runner has attached.
func (p *Probe) Planner() Planner { return p.planner }

// A Planner does what the engine does up to the first request, without a
// cluster. All methods may be called concurrently.
type Planner interface {
	// Namespaced says whether objects of a type live in namespaces, and whether
	// that is only a guess.
	Namespaced(t resource.Type) (namespaced, guessed bool)
	// Finalizer is the one of the operator, "" if there is nothing to finalize.
	Finalizer() string
	// Adopt gives a child the labels and the owner reference that make it one
	// of parent's.
	Adopt(child map[string]any, parent *resource.Resource)
	// Plan calls the handler and returns what the engine would do. An error is
	// that of the pass. What the engine does all the same is planned beside it:
	// the status that a handler returns with its error, say. Nil is nothing.
	Plan(ctx context.Context, req *handler.SyncRequest) (*Planned, error)
	// Compare lists the fields in which an object doesn't satisfy a desired one.
	Compare(t resource.Type, object, desired map[string]any) []Difference
}

// A Planned is what a pass would do.
type Planned struct {
	// Actions are those on children, in the order in which they would be
	// carried out.
	Actions []Action
	// Finalized: the parent is let go.
	Finalized bool
	// Status is what the parent's would be; WritesStatus says whether that is
	// another than it has.
	Status       any
	WritesStatus bool
}

// An Action is one step of a pass.
type Action struct {
	Verb string // create, update, recreate or delete
	Type resource.Type
	// Object is what would be there afterwards as far as the operator has a say
	// in it; of a delete, what was there.
	Object map[string]any
	// Fields are the reasons for an update.
	Fields []Difference
}
