// Package probe lets this module's testkit look into a running operator. It
// is internal so that what a test may see adds nothing to the public API.
package probe

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// A Probe is handed to the runner in its Options; the runner attaches its
// engine when it starts. The zero Probe is ready for use, by any number of
// goroutines.
type Probe struct {
	engine  atomic.Pointer[Engine]
	planner Planner
}

// Attach is called by the runner.
func (p *Probe) Attach(e Engine) { p.engine.Store(&e) }

// Engine returns the attached engine, nil before the runner has started.
func (p *Probe) Engine() Engine {
	if e := p.engine.Load(); e != nil {
		return *e
	}
	return nil
}

// An Engine is what a test may ask a running operator. All methods may be
// called concurrently.
type Engine interface {
	// Activity says what the scheduler has to do.
	Activity() Activity
	// Observed returns the object as the operator's own store holds it.
	Observed(t resource.Type, key types.NamespacedName) (*resource.Resource, bool)
	// Snapshot returns what the next call of the handler would get for the
	// parent, false if the store doesn't hold it.
	Snapshot(parent types.NamespacedName) (*handler.SyncRequest, bool)
	// Compare lists the fields in which live doesn't satisfy desired, by the
	// comparison that decides about writes. desired is whatever may be
	// returned as a child.
	Compare(live *resource.Resource, desired any) ([]Difference, error)
	// Errors returns the errors of the parent's passes so far (the handler's,
	// of an invalid response, of writes), oldest first; the newest 100.
	Errors(parent types.NamespacedName) []error
	// Loops returns the conflict loops found so far, oldest first.
	Loops() []Loop
	// Sizes says how many entries there are in everything that is kept by
	// parent or by child.
	Sizes() map[string]int
}

// An Activity is the state of the scheduler.
type Activity struct {
	Running int    // passes under way
	Due     int    // parents waiting for a worker
	Passes  uint64 // passes ended since the start
	Events  int    // Events that wait to be written
}

// A Difference is one field in which a live object doesn't satisfy a desired
// one. Nil means absent.
type Difference struct {
	Path          string
	Live, Desired any
}

// A Loop is a field that is written again and again because its value, or
// the desired one, keeps changing.
type Loop struct {
	Parent types.NamespacedName
	Type   resource.Type
	Object types.NamespacedName
	Path   string
	Values []string // the values that alternate; redacted for Secrets
}
