package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// The verbs of a Change.
const (
	VerbCreate   = "create"
	VerbUpdate   = "update"
	VerbRecreate = "recreate" // delete the object, and create it once it is gone
	VerbDelete   = "delete"
	VerbFinalize = "finalize" // call the handler's Finalize for a parent that is being deleted
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
	// Verb is VerbCreate or another of those constants.
	Verb string
	// Fields say what would change, in the order of their paths. Of a create it
	// is one without a path, with the object as the handler wants it: what the
	// engine adds is left out. A delete and a finalize have none.
	Fields []FieldChange
	// Waits says what has to come first: "waits for Deployment shop/db" of a child
	// that isn't created before that is ready (see handler.After), "waits for a
	// condition of the handler" (see handler.When), and "waits for Deployment shop/db, a
	// condition of the handler" of one that waits for both. Empty: nothing has to.
	Waits string
	// Unsure says that no dry run could tell what becomes of the change: with
	// Options.ReadOnly none is sent, and some webhooks take none. So it is, too, of a creation
	// that waits, if something else has the name. The API server might
	// refuse the change, or find that there is nothing to change; of a field, Desired is
	// what the handler wants then, without what the API server and webhooks make of it.
	// Unsure is, too, what several parents would do with one object, and what each of them would
	// not do without it. Else a delete, which asks for no dry run, is never unsure, unless the parent
	// itself is one that PlanFor couldn't try.
	Unsure bool
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
// There is a field waits if Waits isn't empty, and a field unsure if Unsure is true. It
// is what the subcommand plan prints with -o json.
func (c Change) MarshalJSON() ([]byte, error) {
	out := plan.Change{Parent: c.Parent, Object: c.Object, Type: c.Type, Verb: c.Verb, Waits: c.Waits, Unsure: c.Unsure}
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
		change := Change{Parent: c.Parent, Object: c.Object, Type: c.Type, Verb: c.Verb, Waits: c.Waits, Unsure: c.Unsure}
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
// Plan uses of opts RESTConfig, Logger and ReadOnly. It needs the rights to list what
// the operator watches, and, as a dry run is authorized like the write itself,
// to create and update its children, unless ReadOnly is set.
func Plan(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options) ([]Change, error) {
	foreseen, err := foresee(ctx, cfg, h, opts, nil)
	return changesOf(foreseen), err
}

// PlanFor is Plan for these parents alone, as they would be: edited are what kubectl
// apply would be given, in any form that a handler may return a child in (typed objects,
// map[string]any, *unstructured.Unstructured and more). It is what the subcommand plan
// does with -f.
//
// Each parent is first defaulted and admitted by a dry run, as kubectl apply would send
// it: it is created if there is none of its name. Fields that it lacks stay as they are,
// unless it has them from an earlier apply of the same manager. A parent with a
// metadata.resourceVersion replaces the live one as a whole, and must have been read from
// it. Then the plan is made as if that were live; a status doesn't count.
//
// With several parents, each is planned for itself. A parent whose namespace is missing
// is in that of cfg.Namespaces, if there is just one. A parent that cfg.ParentSelector
// doesn't match has no changes, or is released.
//
// The error joins all mistakes in edited, and nothing is planned then: an object of
// another type or another version than cfg.Parent, one without a name, two of one name,
// one in a namespace in which the operator doesn't work. Beside any other error there may
// be changes, as in Plan. The dry runs of the parents need the rights to create, update
// and patch them.
//
// With Options.ReadOnly the parents are neither defaulted nor admitted, and all changes
// are unsure.
func PlanFor(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options, edited ...any) ([]Change, error) {
	supposed := make([]plan.Edited, 0, len(edited))
	var errs []error
	for i, obj := range edited {
		source := fmt.Sprintf("plan: object %d", i+1)
		object, err := encode.Map(obj)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
			continue
		}
		supposed = append(supposed, plan.Edited{Object: object, Source: source})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	foreseen, err := foresee(ctx, cfg, h, opts, supposed)
	return changesOf(foreseen), err
}

// foresee is Plan, or with a list of parents PlanFor, with the engine's type of changes.
func foresee(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options, edited []plan.Edited) ([]plan.Change, error) {
	cfg.DryRun = true
	opts.Metrics = prometheus.NewRegistry() // read by nobody; the user's registry stays as it is
	opts.Sharding = Sharding{}
	opts.LeaderElection, opts.Elected, opts.MetricsAddress, opts.HealthAddress, opts.WindowAddress = nil, nil, "", "", ""
	m, err := manager.New(opts.manager(), manager.Spec{Config: cfg, Handler: h})
	switch {
	case err != nil:
		return nil, err
	case edited != nil:
		return m.PlanFor(ctx, edited)
	}
	return m.Plan(ctx)
}
