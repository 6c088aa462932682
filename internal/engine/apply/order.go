package apply

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

// maxRounds bounds how often a refused write is repeated after the other writes of
// its pass, while each round lets another one succeed.
const maxRounds = 3

// afterAll is the order of what comes after all types.
const afterAll = math.MaxInt

// A run carries out one plan: it keeps the order, and knows what has failed so far.
// It belongs to one goroutine.
type run struct {
	*Executor
	attempts []attempt // in the order in which the actions were begun first
	wrote    int       // actions that have changed something
	// foreign are the namespaces that are desired children, and aren't the parent's.
	foreign map[string]struct{}
}

// An attempt is an action of the plan, and what became of it.
type attempt struct {
	action *plan.Action
	result Result
	// left says that the action wasn't tried, since it was refused before. failed is
	// set then.
	left   bool
	failed bool
	before int // actions that had changed something when this one was tried last
}

// carryOut carries out the actions of a plan, in the order that Executor.Run says.
func (r *run) carryOut(ctx context.Context, p *plan.Plan) {
	for i := range p.Refused {
		if a := p.Refused[i].Action; a != nil {
			r.attempts = append(r.attempts, attempt{action: a, left: true, failed: true})
		} else if p.Refused[i].Verb == plan.VerbCreate {
			r.noteMissing(p.Refused[i].Ref)
		}
	}
	for _, a := range r.attempts {
		r.noteNamespace(&a)
	}
	for i := range p.Gated {
		r.noteMissing(p.Gated[i].Ref())
	}
	early, late := plan.SplitDeletes(p.Deletes)
	for i := 0; i < len(p.Writes) || len(early) > 0; {
		order := nextOrder(p.Writes[i:], early)
		var first []plan.Action
		first, early = takeOrder(early, order)
		late = append(r.deleteFree(ctx, p, first, order), late...)
		end := i
		for end < len(p.Writes) && p.Writes[end].Kind.Order == order {
			end++
		}
		r.do(ctx, p.Writes[i:end])
		i = end
	}
	r.do(ctx, p.Sought)
	r.repeat(ctx)
	late = r.deleteFree(ctx, p, late, afterAll)
	late = r.deleteObstacles(ctx, p, late)
	r.repeat(ctx)
	r.deleteFree(ctx, p, late, afterAll)
}

// do carries out actions concurrently: the writes of one type, or deletes.
func (r *run) do(ctx context.Context, actions []plan.Action) {
	free := r.ours(actions)
	before, first := r.wrote, len(r.attempts)
	for i, result := range r.runAll(ctx, free) {
		r.attempts = append(r.attempts, attempt{action: &free[i], result: result, failed: result.Err != nil, before: before})
	}
	for i := range r.attempts[first:] {
		r.learn(&r.attempts[first+i])
	}
}

// ours returns those actions whose children aren't in a namespace that isn't ours, and
// notes the others as held back.
func (r *run) ours(actions []plan.Action) []plan.Action {
	if len(r.foreign) == 0 {
		return actions
	}
	free := make([]plan.Action, 0, len(actions))
	for i, a := range actions {
		if _, foreign := r.foreign[a.Ref.Key.Namespace]; foreign {
			r.attempts = append(r.attempts, attempt{action: &actions[i], result: Result{Action: &actions[i], HeldBack: true}})
		} else {
			free = append(free, a)
		}
	}
	return free
}

// learn notes what the result of an attempt means for the actions after it.
func (r *run) learn(a *attempt) {
	if a.result.Wrote {
		r.wrote++
	}
	r.noteNamespace(a)
}

// repeat repeats the writes that were refused, as long as something else has
// changed since: that may have been the cause.
func (r *run) repeat(ctx context.Context) {
	for range maxRounds {
		var again []int
		var actions []plan.Action
		for i, a := range r.attempts {
			if a.refused() && a.before < r.wrote && ctx.Err() == nil {
				again, actions = append(again, i), append(actions, *a.action)
			}
		}
		if len(actions) == 0 {
			return
		}
		before := r.wrote
		r.again(actions)
		for i, result := range r.runAll(ctx, actions) {
			a := &r.attempts[again[i]]
			*a = attempt{action: a.action, result: result, failed: result.Err != nil, before: before}
			r.learn(a)
		}
	}
}

// refused says whether a write was refused, now or before, for a cause that another
// write of the pass may end.
func (a *attempt) refused() bool {
	if !a.failed {
		return false
	}
	if a.left {
		return true
	}
	_, refused := errors.AsType[*apierror.RefusedError](a.result.Err)
	_, taken := errors.AsType[*NameTakenError](a.result.Err)
	return refused && !taken
}

// deleteFree carries out those deletes that nothing holds back, neither a failed write of a
// type before this order nor a child that the handler wasn't shown, and returns the others.
func (r *run) deleteFree(ctx context.Context, p *plan.Plan, deletes []plan.Action, order int) (held []plan.Action) {
	if len(deletes) == 0 || ctx.Err() != nil {
		return deletes
	}
	back := r.heldBack(p, order)
	var free []plan.Action
	for _, a := range deletes {
		if back.holds(a.Ref) {
			held = append(held, a)
		} else {
			free = append(free, a)
		}
	}
	r.do(ctx, free)
	return held
}

// A holdback says which deletes wait. After a failed write the children aren't all as desired,
// so the old ones may still be needed. Where the handler wasn't shown all of its children,
// the next pass asks it anew.
type holdback struct {
	all, any   bool
	namespaces map[string]struct{} // in which a write has failed
}

// heldBack returns which deletes wait for a write of a type before this order that has
// failed so far, or for the next call of the handler. What was refused in an earlier pass counts
// no sooner than if it were tried in this one.
func (r *run) heldBack(p *plan.Plan, order int) holdback {
	back := holdback{namespaces: map[string]struct{}{}}
	note := func(ref object.Ref) {
		back.any, back.all = true, back.all || ref.Key.Namespace == ""
		back.namespaces[ref.Key.Namespace] = struct{}{}
	}
	for _, a := range r.attempts {
		if a.result.ShownNext { // it might have wanted other children
			back.any, back.all = true, true
		}
		if a.failed && a.action.Kind.Order < order && (a.action.Verb != plan.VerbDelete || a.action.Kind.Child.DeleteFirst) {
			note(a.action.Ref)
		}
	}
	for _, refusal := range p.Refused {
		if refusal.Action == nil && r.Types.Of(refusal.Ref.Type).Order < order {
			note(refusal.Ref)
		}
	}
	return back
}

// holds says whether the delete of a child waits: its namespace has a failed write,
// or the child has no namespace, or a child without namespace has failed.
func (b holdback) holds(ref object.Ref) bool {
	_, here := b.namespaces[ref.Key.Namespace]
	return b.all || here || b.any && ref.Key.Namespace == ""
}

// noteNamespace notes a desired namespace that isn't ours after an attempt to create
// or adopt it, or of which a newer state is awaited: nothing may be written into it.
func (r *run) noteNamespace(a *attempt) {
	if !a.action.Kind.IsNamespace() || a.action.Want == nil {
		return
	}
	name := a.action.Ref.Key.Name
	created := a.action.Verb != plan.VerbCreate && a.action.Verb != plan.VerbAdopt || a.result.Wrote || a.result.Accepted || a.result.Skipped
	if created && (a.result.Wrote || !a.result.Await) {
		delete(r.foreign, name)
		return
	}
	r.noteForeign(name)
}

// noteMissing notes a desired namespace that isn't created, so that it isn't ours, whoever has
// one of that name.
func (r *run) noteMissing(child object.Ref) {
	if r.Types.Of(child.Type).IsNamespace() {
		r.noteForeign(child.Key.Name)
	}
}

func (r *run) noteForeign(namespace string) {
	if r.foreign == nil {
		r.foreign = map[string]struct{}{}
	}
	r.foreign[namespace] = struct{}{}
}

// results returns the results of all actions that were begun.
func (r *run) results() []Result {
	out := make([]Result, 0, len(r.attempts))
	for _, a := range r.attempts {
		if !a.left {
			out = append(out, a.result)
		}
	}
	return slices.Clip(out)
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
