package window

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
)

// A Source is what the window shows: the operators of a process. Its methods may be called
// concurrently. operator is one of Operators.
type Source interface {
	// Operators returns the names of the operators, in their order. There is at least one.
	Operators() []string
	// Overview returns the present state of an operator, false while it doesn't run. It makes no
	// request.
	Overview(operator string) (view.Overview, bool)
	// Family returns what is known of a parent, false if the operator knows none of this name. It makes no request.
	Family(operator string, parent types.NamespacedName) (view.Family, bool)
	// Explain says why a parent and its children are as they are. It reads from the API
	// server, and calls the handler. It returns within half a minute.
	Explain(ctx context.Context, operator string, parent types.NamespacedName, known explain.Process) (explain.Explanation, error)
	// Plan plans all parents, and calls found for each of them, one at a time. parents is how many there are.
	Plan(ctx context.Context, operator string, found func(p view.Planned, parents int)) error
	// Tap has the calls of the handler for a parent kept for Record, until release is called.
	Tap(operator string, parent types.NamespacedName) (release func())
	// Record writes a recording of calls of the handler for a parent that testkit.Replay takes.
	Record(ctx context.Context, operator string, parent types.NamespacedName, to io.Writer) error
}
