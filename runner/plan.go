package runner

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// A Change is what an operator would do to one object: a child, or the parent
// itself.
type Change struct {
	// Parent is the parent whose pass would make the change.
	Parent types.NamespacedName
	// Object and Type name what would be changed. Those of the parent mean its
	// status and its finalizers.
	Object types.NamespacedName
	Type   resource.Type
	// Verb is "create", "update", "recreate", which deletes the object and
	// creates it once it is gone, or "delete". Of a parent that is being
	// deleted it is "finalize" if the handler's Finalize would be called.
	Verb string
	// Fields say what would change, in the order of their paths. Of a create it
	// is one without a path, with the object as the handler wants it: what the
	// engine adds is left out. A delete and a finalize have none.
	Fields []FieldChange
	// Waits says what has to come first: "waits for Deployment shop/db" of a child
	// that isn't created before that is ready (see handler.After), and "waits for a
	// condition of the handler" (see handler.When). Empty: nothing has to.
	Waits string
}

// A FieldChange is a field of a live object that would change.
type FieldChange struct {
	// Path reads like spec.template.spec.containers[name="app"].image. Empty,
	// it means the object as a whole.
	Path string
	// Live is the value it has, Desired the value it would have, as JSON
	// values; nil where there is none. Values of Secrets are "(hidden)".
	Live, Desired any
}

// MarshalJSON returns an object with the fields parent, object, type, verb and
// fields, which is a list of path, live and desired, in which null means absent.
// There is a field waits if Waits isn't empty. It is what the subcommand plan prints
// with -o json.
func (c Change) MarshalJSON() ([]byte, error) {
	out := plan.Change{Parent: c.Parent, Object: c.Object, Type: c.Type, Verb: c.Verb, Waits: c.Waits}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, plan.FieldChange(f))
	}
	return out.MarshalJSON()
}

// changesOf returns the engine's changes as this package's type.
func changesOf(foreseen []plan.Change) []Change {
	if foreseen == nil {
		return nil
	}
	out := make([]Change, 0, len(foreseen))
	for _, c := range foreseen {
		change := Change{Parent: c.Parent, Object: c.Object, Type: c.Type, Verb: c.Verb, Waits: c.Waits}
		for _, f := range c.Fields {
			change.Fields = append(change.Fields, FieldChange(f))
		}
		out = append(out, change)
	}
	return out
}

// Plan returns what this build of the operator would do if it ran now: one pass
// over every parent in which nothing is written. It lists the parents and the
// children, calls the handler's Sync for each parent as Run would, and asks the
// API server by dry runs what would become of the answers, so that fields which
// the server or a webhook only writes differently aren't listed. No Event, no
// finalizer, no lease is written, and Finalize isn't called. The handler is told by
// handler.IsPlan, so that it leaves systems outside the cluster alone.
//
// What follows only from the state after these changes isn't in the plan. So
// the parent's status is in it only if the children stay as they are. The
// engine's own mark on a child doesn't count as a change: an operator that
// starts on an empty plan may write it.
//
// The order is that of the parents' namespaces and names, and within a parent
// that of the writes. A parent whose pass would fail doesn't keep the others
// from being planned: the error joins what went wrong, naming each parent, and
// the changes are those of all that would be done.
//
// Plan uses opts.RESTConfig and opts.Logger. It needs the rights to list what
// the operator watches, and, as a dry run is authorized like the write itself,
// to create and update its children.
func Plan(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options) ([]Change, error) {
	foreseen, err := foresee(ctx, cfg, h, opts)
	return changesOf(foreseen), err
}

// foresee is Plan with the engine's type of changes.
func foresee(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options) ([]plan.Change, error) {
	cfg.DryRun = true
	opts.Metrics = prometheus.NewRegistry() // read by nobody; the user's registry stays as it is
	r, err := New(cfg, h, opts)
	if err != nil {
		return nil, err
	}
	return r.manager.Plan(ctx)
}
