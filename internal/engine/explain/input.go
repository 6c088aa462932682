package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An Input is everything that Make explains by. Its fields are read only.
type Input struct {
	Settings *catalog.Settings
	Parent   *resource.Resource
	Children []*resource.Resource // the live ones, in the order of handler.Children
	Related  []Related
	Process  Process

	// Unselected says why the operator doesn't look at the parent; empty: it does.
	Unselected string
	// Err is why a pass would fail before it looks at the children: the handler's error, say.
	// Nil: it wouldn't.
	Err error
	// Kept says that the handler leaves all children as they are.
	Kept bool
	// Planned is what a pass would do, and Desired are the children that the handler returns.
	// Planned is nil where no pass would look at the children.
	Planned *plan.Plan
	Desired []*plan.Desired
	// Teardown is what is left to do with the children of a parent that is being deleted; nil: nothing,
	// or Finalize comes first.
	Teardown *plan.Teardown

	Holders  map[object.Ref]Holder                      // the objects that have the names of children to be created
	Entries  map[object.Ref][]metav1.ManagedFieldsEntry // the managedFields of children that differ, and of the parent
	Outdated map[object.Ref]plan.Action                 // children of the strategy OnDelete that differ
	Former   []object.Ref                               // children of types that an earlier build had
	Ending   map[string]struct{}                        // namespaces that are being deleted
	Status   []plan.FieldChange                         // of the parent's status that would be written
	Metadata []plan.FieldChange                         // of the parent's metadata that would be written
}

// A Holder is an object that has the name of a child to be created.
type Holder struct {
	What HolderKind
	Why  string // in words
}

// A HolderKind says what becomes of a Holder.
type HolderKind int

// The kinds of holders.
const (
	HolderForeign HolderKind = iota // it is left alone, and the child can't be created
	HolderAdopted                   // it becomes the child
	HolderAwaited                   // its end is awaited
)

// ended returns a time as a pointer, nil for the zero time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
