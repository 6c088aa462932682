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

// maxWritesPerPass bounds how many writes of one pass run at once.
const MaxWritesPerPass = 16

// An Owner is the parent whose children are written.
type Owner interface {
	// Logger returns the log of the pass over the parent.
	Logger() *slog.Logger
	// Goes reads whether the parent is being deleted, or gone.
	Goes(ctx context.Context) (bool, error)
}

// A Result is what became of an action.
type Result struct {
	Action *plan.Action       // the last one: what a finding led to takes the place of what was planned
	Live   *resource.Resource // the object as the server answered; nil if it is gone or not known

	Wrote     bool // something was persisted
	Redundant bool // a write was answered, and nothing was persisted
	Claimed   bool // the object was there, and was given the operator's labels and owner reference
	Accepted  bool // live is what the server makes of the desired state
	Await     bool // somebody else was faster, and the newer state is on its way
	Parked    bool // the change that ends the wait wakes this parent

	Rest []merge.Difference // the fields in which an accepted live object still differs
	Err  error

	// Of a dry run only.

	Skipped bool               // the write was left out
	Would   plan.Verb          // what would have been done
	Fields  []plan.FieldChange // what would have changed
}

// A Report is what became of a plan.
type Report struct {
	Results     []Result
	Terminating []string  // the namespaces in which nothing can be created
	FirstWrite  time.Time // when the first write was answered; zero: there was none
}

// An Executor turns the actions of one pass into requests. The zero value of
// each unexported field is ready for use.
type Executor struct {
	*catalog.Settings
	Client  *client.Client
	Store   *store.Store
	Tracing *observe.Tracing
	Slots   chan struct{} // one for each write under way, shared by all passes
	Parent  *resource.Resource
	Owner   Owner

	mu struct {
		sync.Mutex
		terminating []string // namespaces in which nothing can be created
	}
	// doubtful are the namespaces in which the last pass could create nothing.
	// There, one create at a time is tried. Only read while the plan runs.
	doubtful map[string]chan struct{}
	// expected are the namespaces that would exist by now if this weren't a dry
	// run.
	expected sync.Map
	// first is when the first write was answered, in ns since 1970.
	first atomic.Int64
}

// Run carries out a plan: the types in their order, the children of a type
// concurrently, and the deletes last, and only if all else succeeded.
// terminating are the namespaces in which the last pass could create nothing.
func (x *Executor) Run(ctx context.Context, p *plan.Plan, terminating []string) Report {
	x.expectTerminating(terminating)
	out := Report{Results: x.runTypes(ctx, p), Terminating: x.terminating()}
	if at := x.first.Load(); at != 0 {
		out.FirstWrite = time.Unix(0, at)
	}
	return out
}

// expectTerminating takes note of the namespaces in which the last pass could
// create nothing. The parent's own one can't exist anew while the parent does.
func (x *Executor) expectTerminating(namespaces []string) {
	for _, namespace := range namespaces {
		if namespace == x.Parent.Namespace() {
			x.foundTerminating(namespace)
			continue
		}
		if x.doubtful == nil {
			x.doubtful = map[string]chan struct{}{}
		}
		x.doubtful[namespace] = make(chan struct{}, 1)
	}
}

// foundTerminating notes a namespace in which nothing can be created.
func (x *Executor) foundTerminating(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.mu.terminating, namespace) {
		x.mu.terminating = append(x.mu.terminating, namespace)
	}
}

// terminating returns the namespaces in which nothing can be created.
func (x *Executor) terminating() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.mu.terminating)
}

// runTypes carries out the actions type by type.
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
		// The next type: of what is to be deleted first or to be written.
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

// nextOrder returns the first type of which there is something to write or to
// delete early.
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

// takeOrder takes the actions on one type out of a list.
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

// runAll carries out actions concurrently, each with a result of its own, and
// returns when all are done.
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

// runOne carries out an action when there is a slot for it. A panic is an error
// of this child alone. Of a Secret's panic nothing is said.
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

// acquire takes a slot, unless ctx ends before there is one.
func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carryOut makes the requests of an action, and of the actions that follow from
// what the requests find out, until nothing more follows.
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

// conclude completes the result of the last action.
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
