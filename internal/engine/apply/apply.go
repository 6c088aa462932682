package apply

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/resource"
)

// MaxWritesPerPass bounds how many writes of one pass run at once.
const MaxWritesPerPass = 16

// An Owner is the pass over the parent whose children are written. Its methods
// are called concurrently.
type Owner interface {
	// Logger returns the log of the pass.
	Logger() *slog.Logger
	// Goes asks the API server whether the parent is being deleted or gone.
	Goes(ctx context.Context) (bool, error)
}

// An Executor carries out the plan of one pass. All exported fields must be set,
// but for Tracing. An Executor is for one call of Run.
type Executor struct {
	*catalog.Settings
	Client  *client.Client
	Store   *store.Store       // takes the API server's answers
	Tracing *observe.Tracing   // nil: no spans are made
	Slots   chan struct{}      // has room for as many requests as the operator may have under way, in all passes
	Parent  *resource.Resource // as the pass saw it
	Owner   Owner

	mu struct {
		sync.Mutex
		terminating []string // the namespaces in which nothing can be created
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
// Once an action has failed, and if p.Refused has an error, no further deletes are
// begun.
//
// terminating are the namespaces in which the last pass could create nothing. If
// ctx ends, the actions that aren't begun yet fail.
func (x *Executor) Run(ctx context.Context, p *plan.Plan, terminating []string) Report {
	x.expectTerminating(terminating)
	out := Report{Results: x.runTypes(ctx, p), Terminating: x.terminating()}
	if at := x.first.Load(); at != 0 {
		out.FirstWrite = time.Unix(0, at)
	}
	return out
}

// runTypes carries out the actions of a plan, type by type.
func (x *Executor) runTypes(ctx context.Context, p *plan.Plan) []Result {
	var results []Result
	failed := len(p.Refused) > 0
	do := func(actions []plan.Action) {
		done := x.runAll(ctx, actions)
		for _, r := range done {
			failed = failed || r.Err != nil
		}
		results = append(results, done...)
	}
	early, late := plan.SplitDeletes(p.Deletes)
	for i := 0; i < len(p.Writes) || len(early) > 0; {
		order := nextOrder(p.Writes[i:], early)
		var first []plan.Action
		first, early = takeOrder(early, order)
		if !failed {
			do(first)
		}
		end := i
		for end < len(p.Writes) && p.Writes[end].Kind.Order == order {
			end++
		}
		do(p.Writes[i:end])
		i = end
	}
	if !failed && ctx.Err() == nil {
		do(late)
	}
	return results
}

// nextOrder returns the order of the first type that has a write or an early delete
// left. One of the lists must not be empty.
func nextOrder(writes, early []plan.Action) int {
	order := -1
	if len(writes) > 0 {
		order = writes[0].Kind.Order
	}
	for _, a := range early {
		if order < 0 || a.Kind.Order < order {
			order = a.Kind.Order
		}
	}
	return order
}

// takeOrder splits a list into the actions on the type with this order and the
// rest.
func takeOrder(actions []plan.Action, order int) (taken, rest []plan.Action) {
	for _, a := range actions {
		if a.Kind.Order == order {
			taken = append(taken, a)
		} else {
			rest = append(rest, a)
		}
	}
	return taken, rest
}

// runAll carries out actions concurrently, at most MaxWritesPerPass at a time. It
// returns when all are done, with the results in the order of the actions.
func (x *Executor) runAll(ctx context.Context, actions []plan.Action) []Result {
	if len(actions) == 0 {
		return nil
	}
	results := make([]Result, len(actions))
	var wg sync.WaitGroup
	own := make(chan struct{}, MaxWritesPerPass)
	last := len(actions) - 1
	for i := range last {
		own <- struct{}{}
		wg.Go(func() {
			defer func() { <-own }()
			results[i] = x.runOne(ctx, &actions[i])
		})
	}
	own <- struct{}{}
	results[last] = x.runOne(ctx, &actions[last]) // this goroutine has nothing else to do
	wg.Wait()
	return results
}

// runOne carries out one action once there is a slot. A panic becomes the error of
// this child alone. The text of a panic over a Secret is hidden.
func (x *Executor) runOne(ctx context.Context, a *plan.Action) (out Result) {
	ctx, span := x.Tracing.Write(ctx, string(a.Verb), a.Ref)
	defer func() { span.End(out.Err) }()
	defer func() {
		if v := recover(); v != nil {
			if a.Kind.Secret() {
				v = "(hidden)"
			}
			x.Owner.Logger().ErrorContext(ctx, "write panicked", "child", a.Ref.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			out = Result{Action: a, Err: describe(a, fmt.Errorf("panic: %v", v))}
		}
	}()
	if one := x.doubtful[a.Ref.Key.Namespace]; one != nil && a.Verb == plan.VerbCreate {
		if err := acquire(ctx, one); err != nil {
			return Result{Action: a, Err: describe(a, err)}
		}
		defer func() { <-one }()
	}
	if err := acquire(ctx, x.Slots); err != nil {
		return Result{Action: a, Err: describe(a, err)}
	}
	defer func() { <-x.Slots }()
	if a.Verb == plan.VerbCreate && slices.Contains(x.terminating(), a.Ref.Key.Namespace) {
		return Result{Action: a} // one answer was enough
	}
	out = x.carryOut(ctx, a)
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
		if found == nil {
			return taking.with(x.conclude(a, r))
		}
		taking.note(x.Settings, a, found)
		following, ok := plan.Next(x.Settings, *a, found)
		if !ok || following.Verb == plan.VerbNone {
			return taking.with(x.conclude(a, Result{Live: a.Live, Accepted: true}))
		}
		a = &following
	}
}

// conclude completes the result r of the last action, a.
func (x *Executor) conclude(a *plan.Action, r Result) Result {
	r.Action = a
	if r.Err != nil {
		return x.judge(a, r)
	}
	if r.Accepted && r.Live != nil && !merge.Covers(r.Live, a.Want.Object()) {
		r.Rest = a.Kind.Comparison.Compare(r.Live.Unstructured().Object, a.Want.Object(), nil)
	}
	return r
}
