package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An Input is everything that Build decides by, besides the settings.
type Input struct {
	Parent   *resource.Resource   // the parent as the pass saw it
	Desired  []*Desired           // of Desire; their objects are made on demand, see Desired
	KeepAll  bool                 // the handler wants all children left as they are
	Children []*resource.Resource // what the handler was shown as children, in the order of handler.Children
	// Unlabelled are those of Children that carry no labels yet. They are adopted
	// before anything else becomes of them.
	Unlabelled map[object.Ref]struct{}
	Memory     *ParentMemory // read only
	Needed     Needed        // for the children that wait for others: see FindNeeds
	Now        time.Time     // refused writes are tried again by then, or postponed
	// Held returns the fieldsV1 of each of the operator's entries in the managedFields of a child in
	// this state, nothing if they aren't known. Nil knows of none.
	Held func(*resource.Resource) []string

	readiness map[*resource.Resource]readiness.Readiness // what Build has found out; nil: nothing asks for it
}

// readinessOf is ReadinessOf, once for each object and Build.
func (in *Input) readinessOf(res *resource.Resource) readiness.Readiness {
	is, ok := in.readiness[res]
	if !ok {
		if is, ok = in.Memory.readiness.known(res); !ok {
			is = ReadinessOf(res)
		}
		in.readiness[res] = is
	}
	return is
}

// ownership returns what is known of the managedFields of a live child.
func (in *Input) ownership(live *resource.Resource) ownership {
	if live == nil || in.Held == nil {
		return ownership{}
	}
	return ownership{entries: in.Held(live)}
}

// A Plan is what one pass does to the children of one parent. Each child is in
// one of the lists at most, but that those of Sought are among Gated.
type Plan struct {
	Writes  []Action  // of desired children and of those to be adopted, by the order of their types (catalog.Kind.Order)
	Deletes []Action  // of children that are no longer desired: see SplitDeletes
	Settled []Action  // of children that were compared and are as desired; the verb is VerbNone
	Refused []Refusal // writes that are left out, since they were refused a moment ago
	Waits   []Wait    // children that are being deleted and that finalizers hold
	Gated   []Gated   // desired children that aren't created before others are ready
	Sought  []Action  // of Gated: those that may be there, and have lost their labels
	// Unserved are the desired children whose type the API server doesn't serve. Those of
	// types that aren't optional are among Refused too.
	Unserved []object.Ref
	// Pending are the updates that are left out because the schema of their type isn't known yet.
	Pending []Action

	// Queued are the outdated children that are updated once others of their type are Current. Of a
	// Teardown they are those that go later.
	Queued []Queued

	behindGates []Action // creations that may have to wait: see admit
	outdated    []Action // writes of outdated children of types with config.Roll: see roll
}

// Creates says whether the plan creates or adopts a child, or may do so when a refused
// write is repeated.
func (p *Plan) Creates() bool {
	return slices.ContainsFunc(p.Writes, func(a Action) bool { return a.Verb.makesChild() }) ||
		slices.ContainsFunc(p.Refused, func(r Refusal) bool { return r.Verb.makesChild() })
}

// makesChild says whether the action makes a child of what was none.
func (v Verb) makesChild() bool { return v == VerbCreate || v == VerbAdopt }

// Build decides what has to be done for the children to be as desired. It is a
// pure function, but that it makes the object of a Desired on demand: see load.
func Build(s *catalog.Settings, in Input) Plan {
	var p Plan
	if in.KeepAll {
		return p
	}
	wanted := make([]bool, len(in.Children))
	writes := writesByType{of: s.Types}
	hint := 0 // mostly, desired children come in an order like that of the live ones
	for _, d := range in.Desired {
		var live *resource.Resource
		if i, ok := find(in.Children, d.ref, hint); ok {
			live, wanted[i], hint = in.Children[i], true, i+1
		}
		if a, ok := p.consider(s, in, d, live); ok {
			writes.add(a)
		}
	}
	for i, child := range in.Children {
		k := s.Types.Of(child.Type())
		switch {
		case wanted[i], k == nil, k.Unserved:
		case in.adopts(child):
			if a, ok := p.due(in, Action{Verb: VerbAdopt, Kind: k, Ref: object.RefOf(child), Live: child}); ok {
				writes.add(a)
			}
		case child.IsDeleting():
			p.noteHeld(s, k, child)
		default:
			if a, ok := p.due(in, Action{Verb: VerbDelete, Kind: k, Ref: object.RefOf(child), Live: child}); ok {
				p.Deletes = append(p.Deletes, a)
			}
		}
	}
	if len(p.behindGates)+len(p.outdated) > 0 {
		in.readiness = map[*resource.Resource]readiness.Readiness{}
	}
	unsettled := p.unsettled(&writes)
	p.roll(s, in, unsettled, &writes)
	p.admit(in, unsettled, &writes)
	p.Writes = slices.Concat(writes.byOrder...)
	return p
}

// A writesByType collects writes by the order of their types.
type writesByType struct {
	of      *catalog.Catalog
	byOrder [][]Action // nil: there is no write
}

func (w *writesByType) add(a Action) {
	if w.byOrder == nil {
		w.byOrder = make([][]Action, len(w.of.Children))
	}
	w.byOrder[a.Kind.Order] = append(w.byOrder[a.Kind.Order], a)
}

// adopts says whether a live object is to be adopted.
func (in *Input) adopts(live *resource.Resource) bool {
	if live == nil || len(in.Unlabelled) == 0 {
		return false
	}
	_, ok := in.Unlabelled[object.RefOf(live)]
	return ok
}

// consider returns the write that one desired child needs, false if the child
// needs none. A child that is as desired goes to Settled, and a write that was
// refused a moment ago goes to Refused.
func (p *Plan) consider(s *catalog.Settings, in Input, d *Desired, live *resource.Resource) (Action, bool) {
	if d.keep && (!in.adopts(live) || !IsMadeFor(s, in.Parent, live)) {
		return Action{}, false // only a child that the operator has made gets its labels back
	}
	if d.kind.Unserved {
		p.noteUnserved(d)
		return Action{}, false
	}
	if in.adopts(live) {
		return p.due(in, Action{Verb: VerbAdopt, Kind: d.kind, Ref: d.ref, Live: live, Want: d})
	}
	if live != nil && live.IsDeleting() {
		return p.considerDeleting(s, in, d, live)
	}
	known := in.Memory.remembered(d).of(live)
	drift, due := in.Memory.drift(d, live, in.Now)
	if due && known != nil {
		again := *known
		again.version = ""
		known = &again
	}
	if leftAlone(d, live, known) {
		return Action{}, false
	}
	if err := d.load(s, in.Parent); err != nil {
		verb := VerbUpdate
		if live == nil {
			verb = VerbCreate
		}
		p.Refused = append(p.Refused, Refusal{Failure: Failure{Ref: d.ref, Verb: verb, Err: err}})
		return Action{}, false
	}
	a, ok := Next(s, Action{Live: live, Want: d}, memorized{known, in.ownership(live), drift})
	a.Repeated = due
	switch {
	case !ok:
		if a.Verb != "" {
			p.Pending = append(p.Pending, a)
		}
		return Action{}, false
	case a.Verb == VerbNone:
		p.Settled = append(p.Settled, a)
		return Action{}, false
	case a.Verb == VerbCreate && d.gate != nil && !in.Memory.recreates(d):
		p.behindGates = append(p.behindGates, a)
		return Action{}, false
	case a.Rolls():
		p.outdated = append(p.outdated, a)
		return Action{}, false
	}
	return p.due(in, a)
}

// noteUnserved notes a child whose type the API server doesn't serve.
func (p *Plan) noteUnserved(d *Desired) {
	p.Unserved = append(p.Unserved, d.ref)
	if d.kind.Child.Optional {
		return
	}
	err := fmt.Errorf("%s: %s: %w", d.ref, VerbCreate, d.kind.NotServed())
	p.Refused = append(p.Refused, Refusal{Failure: Failure{Ref: d.ref, Verb: VerbCreate, Reason: string(metav1.StatusReasonNotFound), Err: err}})
}

// due returns an action with what is remembered of earlier tries. It returns false
// for a write that was refused and is to be tried later, which goes to Refused.
func (p *Plan) due(in Input, a Action) (Action, bool) {
	if h := in.Memory.held[BatchOf(&a)]; h != nil && !h.due(in.Now) {
		f := h.Failure
		f.Ref, f.Verb = a.Ref, a.Verb
		p.Refused = append(p.Refused, Refusal{Failure: f, Action: &a, Held: true})
		return Action{}, false
	}
	s := in.Memory.setback(&a)
	if s == nil {
		return a, true
	}
	a.Repeated = true
	if s.failure.Err != nil && !s.due(in.Now) {
		p.Refused = append(p.Refused, Refusal{Failure: s.failure, Action: &a})
		return Action{}, false
	}
	return a, true
}

// Live returns the object of a list that is in the order of handler.Children, nil if it isn't in
// the list. hint is where the object may be; Live changes it to where the next one may be.
func Live(sorted []*resource.Resource, ref object.Ref, hint *int) *resource.Resource {
	i, ok := find(sorted, ref, *hint)
	if !ok {
		return nil
	}
	*hint = i + 1
	return sorted[i]
}

// find returns the position of an object in a list that is in the order of
// handler.Children, false if the object isn't in the list. find looks at the
// position hint first.
func find(sorted []*resource.Resource, ref object.Ref, hint int) (int, bool) {
	if hint < len(sorted) && object.CompareRef(sorted[hint], ref) == 0 {
		return hint, true
	}
	return slices.BinarySearchFunc(sorted, ref, object.CompareRef)
}
