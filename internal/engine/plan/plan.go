package plan

import (
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An Input is everything that Build decides by, besides the settings.
type Input struct {
	Parent   *resource.Resource   // the parent as the pass saw it
	Desired  []*Desired           // of Desire; their objects are made on demand, see Desired
	KeepAll  bool                 // the handler wants all children left as they are
	Children []*resource.Resource // the live children, in the order of handler.Children
	Memory   *ParentMemory        // read only
}

// A Plan is what one pass does to the children of one parent. Each child is in
// one of the lists at most.
type Plan struct {
	Writes  []Action // of desired children, by the order of their types (catalog.Kind.Order)
	Deletes []Action // of children that are no longer desired: see SplitDeletes
	Settled []Action // of children that were compared and are as desired; the verb is VerbNone
	Refused []error  // the errors of children whose write would be refused as an earlier one was
}

// Creates says whether the plan creates a child.
func (p *Plan) Creates() bool {
	return slices.ContainsFunc(p.Writes, func(a Action) bool { return a.Verb == VerbCreate })
}

// Build decides what has to be done for the children to be as desired. It is a
// pure function, but that it makes the object of a Desired on demand: see load.
func Build(s *catalog.Settings, in Input) Plan {
	var p Plan
	if in.KeepAll {
		return p
	}
	wanted := make([]bool, len(in.Children))
	var byOrder [][]Action // writes by the order of their types
	hint := 0              // mostly, desired children come in an order like that of the live ones
	for _, d := range in.Desired {
		var live *resource.Resource
		if i, ok := find(in.Children, d.ref, hint); ok {
			live, wanted[i], hint = in.Children[i], true, i+1
		}
		if a, ok := p.consider(s, in, d, live); ok {
			if byOrder == nil {
				byOrder = make([][]Action, len(s.Types.Children))
			}
			byOrder[d.kind.Order] = append(byOrder[d.kind.Order], a)
		}
	}
	for _, actions := range byOrder {
		p.Writes = append(p.Writes, actions...)
	}
	for i, child := range in.Children {
		if wanted[i] || child.IsDeleting() {
			continue
		}
		if k := s.Types.Of(child.Type()); k != nil {
			p.Deletes = append(p.Deletes, Action{Verb: VerbDelete, Kind: k, Ref: object.RefOf(child), Live: child})
		}
	}
	return p
}

// consider returns the write that one desired child needs, false if the child
// needs none. A child that is as desired goes to Settled, and a child whose write
// would be refused as an earlier one was goes to Refused.
func (p *Plan) consider(s *catalog.Settings, in Input, d *Desired, live *resource.Resource) (Action, bool) {
	if d.keep {
		return Action{}, false
	}
	remembered := in.Memory.remembered(d)
	if err := remembered.refuses(d, live); err != nil {
		p.Refused = append(p.Refused, err)
		return Action{}, false
	}
	known := remembered.of(live)
	if leftAlone(d, live, known) {
		return Action{}, false
	}
	if err := d.load(s, in.Parent); err != nil {
		p.Refused = append(p.Refused, err)
		return Action{}, false
	}
	a, ok := Next(s, Action{Live: live, Want: d}, memorized{known})
	if ok && a.Verb == VerbNone {
		p.Settled = append(p.Settled, a)
		return Action{}, false
	}
	return a, ok
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
