package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// What a pass couldn't write is told by log and Event, shown to the handler's next
// call, and tried again: refusals in growing distance, everything else as
// the scheduler's backoff says.

// learnFailures remembers what the pass couldn't write, and returns the joined errors:
// those of its own writes, and those of refused writes that it has left out.
func (p *pass) learnFailures(planned *plan.Plan) error {
	var failures []plan.Failure
	var kept []plan.Refusal
	if len(planned.Refused) > 0 {
		tried := p.tried()
		for _, refusal := range planned.Refused {
			if _, again := tried[refusal.Ref]; !again {
				kept, failures = append(kept, refusal), append(failures, refusal.Failure)
			}
		}
	}
	var setbacks []plan.Setback
	for i := range p.results {
		r := &p.results[i]
		failure := failureOf(r)
		_, refused := errors.AsType[*apierror.RefusedError](r.Err)
		_, held := p.held[plan.BatchOf(r.Action)]
		if refused && !held || r.Await && !r.Wrote && !r.Parked {
			setback := plan.Setback{Action: r.Action, Failure: failure}
			if r.Elsewhere {
				setback.Within = elsewhereWithin
			}
			setbacks = append(setbacks, setback)
		}
		if r.Err != nil {
			failures = append(failures, failure)
		}
	}
	slices.SortStableFunc(failures, func(a, b plan.Failure) int { return strings.Compare(a.Ref.String(), b.Ref.String()) }) // the same text each time
	p.memory.SetBack(kept, setbacks, p.held, time.Now(), p.queue.Backoff)
	errs := p.errorsOf(failures)
	held := p.heldBack()
	p.failuresOver = p.memory.Fail(append(failures, held...))
	if len(errs) > 0 && len(held) > 0 {
		errs = append(errs, &apierror.RefusedError{Err: errors.New(heldText(held))})
	}
	return apierror.Join(errs)
}

// errorsOf returns the errors of failures. Those of a batch that is held have one error.
func (p *pass) errorsOf(failures []plan.Failure) (errs []error) {
	batches := p.memory.HeldBatches(time.Now())
	counts := map[plan.Batch]int{}
	for _, f := range failures {
		b := plan.Batch{Type: f.Ref.Type, Deletes: f.Verb == plan.VerbDelete}
		_, rejected := errors.AsType[*apierror.RefusedError](f.Err)
		_, taken := errors.AsType[*apply.NameTakenError](f.Err)
		if _, held := batches[b]; held && rejected && !taken {
			counts[b]++
		} else {
			errs = append(errs, f.Err)
		}
	}
	for _, k := range p.Types.Children {
		for _, deletes := range []bool{false, true} {
			b := plan.Batch{Type: k.Type, Deletes: deletes}
			if n := counts[b]; n > 0 {
				what := "written"
				if deletes {
					what = "deleted"
				}
				errs = append(errs, &apierror.RefusedError{Err: &countedError{k.Type.Kind, what, n, batches[b].Failure.Err}})
			}
		}
	}
	return errs
}

// tried returns the children of which the pass has tried a write.
func (p *pass) tried() map[object.Ref]struct{} {
	tried := make(map[object.Ref]struct{}, len(p.results))
	for _, r := range p.results {
		tried[r.Action.Ref] = struct{}{}
	}
	return tried
}

// failureOf returns the failure that a result tells of. Its error is nil if the
// result has none.
func failureOf(r *apply.Result) plan.Failure {
	f := plan.Failure{Ref: r.Action.Ref, Verb: r.Action.Verb, Err: r.Err}
	if r.Err == nil {
		return f
	}
	f.Reason = string(apierrors.ReasonForError(r.Err))
	if _, taken := errors.AsType[*apply.NameTakenError](r.Err); taken {
		f.Reason = string(metav1.StatusReasonAlreadyExists)
	}
	return f
}

// heldBack returns the children that weren't written since their namespace, which is a
// desired child too, isn't the parent's.
func (p *pass) heldBack() []plan.Failure {
	var held []plan.Failure
	for _, r := range p.results {
		if r.HeldBack {
			f := plan.Failure{Ref: r.Action.Ref, Verb: r.Action.Verb}
			f.Err = fmt.Errorf("%s: %s: held back until the Namespace %s is a child of this parent", f.Ref, f.Verb, f.Ref.Key.Namespace)
			held = append(held, f)
		}
	}
	return held
}

// heldText says for all children that are held back why that is.
func heldText(held []plan.Failure) string {
	var namespaces []string
	for _, f := range held {
		if !slices.Contains(namespaces, f.Ref.Key.Namespace) {
			namespaces = append(namespaces, f.Ref.Key.Namespace)
		}
	}
	noun := "children are"
	if len(held) == 1 {
		noun = "child is"
	}
	return fmt.Sprintf("%d %s held back until the Namespace %s is a child of this parent: nothing is written into a namespace that isn't its own", len(held), noun, joinNames(namespaces))
}

// byNextPass says that nothing else has to come first: the next pass, which follows at once, knows more.
const byNextPass = "more children are written by the next pass"

// waitTexts says, as texts, what the pass waits for. texts are to be told of. waits are those
// about desired children that aren't as desired since they wait. If only the watch is late with a
// newer state of a child, that is among waits at once, and among texts from the second try on.
func (p *pass) waitTexts(planned *plan.Plan) (texts, waits []string) {
	for _, alike := range plan.GroupWaits(planned.Waits) {
		text := alike[0].String()
		if len(alike) > 1 {
			text = fmt.Sprintf("%s, and %d more that wait for the same", text, len(alike)-1)
		}
		texts = append(texts, text)
		if alike[0].Desired {
			waits = append(waits, text)
		}
	}
	var names, awaited []string
	failed := false
	for i := range p.results {
		r := &p.results[i]
		failed = failed || r.Err != nil
		if r.Parked || r.Await && !r.Wrote && p.memory.Tries(r.Action) > 1 {
			names = append(names, p.nameOf(r.Action.Ref))
		}
		if r.Await && !r.Wrote {
			awaited = append(awaited, p.nameOf(r.Action.Ref))
		}
	}
	var others []string
	pending := make([]object.Ref, 0, len(planned.Pending))
	for i := range planned.Pending {
		pending = append(pending, planned.Pending[i].Ref)
	}
	for _, k := range p.Types.Children {
		if names := p.namesOf(planned.Unserved, k.Type); len(names) > 0 && k.Child.Optional {
			text := fmt.Sprintf("waiting until the API server serves %s, the type of %s", k.Type, joinNames(names))
			if len(k.Similar) > 0 {
				text += "; it serves " + catalog.TypeList(k.Similar)
			}
			others = append(others, text)
		}
		if names := p.namesOf(pending, k.Type); len(names) > 0 {
			others = append(others, fmt.Sprintf("not updating %s before the schema of %s is read", joinNames(names), k.Type))
		}
	}
	others = append(others, p.gateTexts(planned)...)
	others = append(others, p.rollTexts(planned)...)
	others = append(others, p.terminatingTexts()...)
	texts, waits = append(texts, others...), append(waits, others...)
	if len(planned.Queued)+len(planned.Gated) > 0 && len(waits) == 0 {
		waits = append(waits, byNextPass)
	}
	if len(names) > 0 {
		texts = append(texts, awaitText(names))
	}
	if len(awaited) > 0 {
		waits = append(waits, awaitText(awaited))
	}
	if held := p.heldBack(); len(held) > 0 {
		waits = append(waits, heldText(held))
		if !failed {
			texts = append(texts, heldText(held))
		}
	}
	return texts, waits
}

// awaitText says that the end or a newer state of objects with these names is awaited.
func awaitText(names []string) string {
	return "waiting for the end or a newer state of what has the name of " + joinNames(names)
}

// namesOf returns the names of those children that are of a type.
func (p *pass) namesOf(children []object.Ref, t resource.Type) (names []string) {
	for _, ref := range children {
		if ref.Type == t {
			names = append(names, p.nameOf(ref))
		}
	}
	return names
}

// areReady says of this many children what is waited for.
func areReady(count int) string {
	if count == 1 {
		return " is there and ready"
	}
	return " are there and ready"
}

// terminatingTexts says which children can't be created since their namespace is being deleted. In
// the parent's own namespace all goes, so that nobody has to be told.
func (p *pass) terminatingTexts() (texts []string) {
	for _, namespace := range p.memory.NamespacesTerminating() {
		if namespace == p.parent.Namespace() {
			continue
		}
		var names []string
		for i := range p.results {
			if r := &p.results[i]; r.Action.Verb == plan.VerbCreate && r.Action.Ref.Key.Namespace == namespace && !r.Action.Sought && !r.Wrote && r.Err == nil {
				names = append(names, p.nameOf(r.Action.Ref))
			}
		}
		if len(names) > 0 {
			texts = append(texts, fmt.Sprintf("not creating %s before the namespace %s, which is being deleted, is gone", joinNames(names), namespace))
		}
	}
	return texts
}

// gateTexts says for the children that aren't created yet what they wait for. Those that wait
// for the same have one text.
func (p *pass) gateTexts(planned *plan.Plan) (texts []string) {
	children := map[string][]string{}
	var order []string
	for i := range planned.Gated {
		g := &planned.Gated[i]
		reason := "the handler's own condition for it is met"
		if len(g.Needs) > 0 {
			needs := make([]string, 0, len(g.Needs))
			for _, n := range g.Needs {
				if _, ok := p.verified[n]; !ok {
					needs = append(needs, p.nameOf(n))
				}
			}
			switch {
			case len(needs) > 0:
				reason = joinNames(needs) + areReady(len(needs))
			case !g.Closed():
				continue // the next pass follows at once
			}
		}
		if children[reason] == nil {
			order = append(order, reason)
		}
		children[reason] = append(children[reason], p.nameOf(g.Ref()))
	}
	for _, reason := range order {
		texts = append(texts, fmt.Sprintf("not creating %s before %s", joinNames(children[reason]), reason))
	}
	return texts
}
