package apply

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// MaxWritesPerPass bounds how many writes of one pass run at once.
const MaxWritesPerPass = 16

// An Owner is the pass over the parent whose children are written. Its methods
// are called concurrently.
type Owner interface {
	client.Listener // its Logger is the log of the pass
	// Goes asks the API server whether the parent is being deleted or gone.
	Goes(ctx context.Context) (bool, error)
	// Changed is called after each read of a child, with the parents that its state concerns.
	Changed(c store.Change, child object.Ref)
}

// An Executor carries out the plan of one pass. All exported fields must be set,
// but for Tracing, EndsAtClaim and Probes. An Executor is for one call of Run.
type Executor struct {
	*catalog.Settings
	Client  *client.Client
	Store   *store.Store
	Tracing *observe.Tracing   // nil: no spans are made
	Lessons *Lessons           // of all passes of the operator
	Slots   chan struct{}      // has room for as many requests as the operator may have under way, in all passes
	Parent  *resource.Resource // as the pass saw it
	Owner   Owner
	// EndsAtClaim has a dry run do no more with an object that it would take over, or whose owner reference
	// it would mend, than a pass does: what else becomes of it is for a further call with what was Found.
	EndsAtClaim bool
	// Probes are the batches that were held before: each begins with one write. Nil: there are none.
	Probes map[plan.Batch]plan.HeldBatch

	mu struct {
		sync.Mutex
		batches     map[plan.Batch]*slowStart // nil: nothing was written yet
		terminating []string                  // the namespaces in which nothing can be created
	}
	// doubtful are the namespaces in which the last pass could create nothing. In
	// each, one create at a time is tried: whoever holds the slot tries. Nothing
	// changes the map while the actions run.
	doubtful map[string]chan struct{}
	// expected has the names (string) of the namespaces that would exist by now if
	// this weren't a dry run.
	expected sync.Map
	// first is when the first write was answered, in nanoseconds since 1970; zero:
	// nothing was written yet.
	first atomic.Int64
}

// Run carries out a plan, and returns when every request has ended. The types go
// in their order, and the children of one type go concurrently. A type with
// DeleteFirst has its deletes before its writes. All other deletes go last.
//
// A write that is refused, or is among p.Refused, is repeated after the other
// writes if one of them has changed something since. A write that has failed by
// then holds back the deletes in its namespace and those of children without a
// namespace; if it is of a child without namespace, it holds back all. Only what
// stands in the way of a refused write itself is deleted nevertheless: the write
// wants the port of a child that is to go. Nothing is done in a namespace that is
// among the desired children and isn't the parent's.
//
// terminating are the namespaces in which the last pass could create nothing. If
// ctx ends, the actions that aren't begun yet fail.
func (x *Executor) Run(ctx context.Context, p *plan.Plan, terminating []string) Report {
	x.expectTerminating(terminating)
	r := run{Executor: x}
	r.carryOut(ctx, p)
	out := Report{Results: r.results(), Terminating: x.terminating(), Held: x.held()}
	if at := x.first.Load(); at != 0 {
		out.FirstWrite = time.Unix(0, at)
	}
	return out
}

// Expect says that a namespace would exist by now if this weren't a dry run.
func (x *Executor) Expect(namespace string) { x.expected.Store(namespace, true) }

// runAll carries out actions concurrently, at most MaxWritesPerPass at a time. It
// returns when all are done, with the results in the order of the actions.
func (x *Executor) runAll(ctx context.Context, actions []plan.Action) []Result {
	if len(actions) == 0 {
		return nil
	}
	results := make([]Result, len(actions))
	var wg sync.WaitGroup
	own := make(chan struct{}, MaxWritesPerPass)
	batch := plan.BatchOf(&actions[0])
	batch.Corrects = false
	first := x.Probes[batch].Next // each time, another write is the probe
	for n := range actions {
		i := (first + n) % len(actions)
		own <- struct{}{}
		if n == len(actions)-1 {
			results[i] = x.runOne(ctx, &actions[i]) // this goroutine has nothing else to do
			break
		}
		wg.Go(func() {
			defer func() { <-own }()
			results[i] = x.runOne(ctx, &actions[i])
		})
	}
	wg.Wait()
	return results
}

// runOne carries out one action once there is a slot. A panic becomes the error of
// this child alone. The text of a panic over a Secret is hidden.
func (x *Executor) runOne(ctx context.Context, a *plan.Action) (out Result) {
	ctx, span := x.Tracing.Write(client.WarningsTo(ctx, x.Owner, a.Ref), string(a.Verb), a.Ref)
	defer func() { span.End(out.Err) }()
	defer func() {
		if v := recover(); v != nil {
			panicked := guard.Recovered(v)
			if a.Kind.Secret() {
				panicked = &guard.PanicError{Text: "(hidden)", Stack: panicked.Stack}
			}
			out = Result{Action: a, Err: describe(a, panicked)}
			x.Owner.Logger().ErrorContext(ctx, "write panicked", "child", a.Ref.String(), "panic", panicked.Text, "stack", panicked.Stack)
		}
	}()
	if one := x.doubtful[a.Ref.Key.Namespace]; one != nil && a.Verb == plan.VerbCreate {
		if err := acquire(ctx, one); err != nil {
			return Result{Action: a, Err: describe(a, err)}
		}
		defer func() { <-one }()
	}
	if !x.Config.DryRun {
		if err := x.slowStartOf(a).admit(ctx, a); err != nil {
			return x.notAdmitted(ctx, a, err)
		}
		defer func() { x.note(a, &out) }()
	}
	if err := acquire(ctx, x.Slots); err != nil {
		return Result{Action: a, Err: describe(a, err)}
	}
	defer func() { <-x.Slots }()
	if a.Verb == plan.VerbCreate && slices.Contains(x.terminating(), a.Ref.Key.Namespace) {
		return Result{Action: a} // one answer was enough
	}
	begin := time.Now()
	out = x.carryOut(ctx, a)
	out.Took = time.Since(begin)
	if out.Wrote {
		x.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	return out
}

// acquire takes a slot. It fails if ctx ends before a slot is free.
func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carryOut makes the requests of an action. If they end in a finding instead of a
// result, carryOut goes on with the action that plan.Next derives from it. The loop
// ends with a result, or when the finding says that nothing is to be done: then
// the child is accepted as it is.
func (x *Executor) carryOut(ctx context.Context, a *plan.Action) Result {
	attempt := x.request
	if x.Config.DryRun {
		attempt = x.rehearse
	}
	var taking rehearsedClaim
	for {
		r, found := attempt(ctx, a)
		if found == nil && x.recreatesImmutable(ctx, a, r) {
			found = plan.Immutable{}
		}
		if found == nil {
			return taking.with(x.conclude(ctx, a, r))
		}
		taking.note(x.Settings, a, r, found)
		if x.EndsAtClaim && taking.claims {
			return taking.with(x.conclude(ctx, a, Result{}))
		}
		following, ok := plan.Next(x.Settings, *a, found)
		switch {
		case !ok && following.Verb != "": // it awaits the schema of its type
			return taking.with(x.conclude(ctx, a, Result{}))
		case !ok, following.Verb == plan.VerbNone:
			settled := *a
			settled.Rejection = following.Rejection
			return taking.with(x.conclude(ctx, &settled, Result{Live: a.Live, Accepted: true}))
		}
		a = &following
	}
}

// conclude completes the result r of the last action, a.
func (x *Executor) conclude(ctx context.Context, a *plan.Action, r Result) Result {
	r.Action = a
	if r.Err != nil {
		return x.judge(ctx, a, r)
	}
	if r.Accepted && r.Live != nil {
		r.Rest = a.Rest(r.Live)
	}
	if (r.Wrote || r.Redundant) && (a.Verb == plan.VerbUpdate || a.Verb == plan.VerbApply) {
		r.Ignored = plan.Ignored(a, r.Live, r.Rest, func() map[string]any {
			made, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.ChoiceBody(x.Settings, a, x.Parent))
			if err != nil {
				return nil
			}
			return made
		})
	}
	return r
}
