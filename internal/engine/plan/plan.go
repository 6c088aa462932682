package plan

import (
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Input is all that decides about the children of one parent.
type Input struct {
	Parent   *resource.Resource
	Desired  []*Desired
	KeepAll  bool                 // the children are left as they are
	Children []*resource.Resource // in the order of handler.Children
	Memory   *ParentMemory        // only read
}

// A Plan is what one pass does to the children.
type Plan struct {
	Writes  []Action // in the order of the types
	Deletes []Action
	Settled []Action // of children that were compared and are as desired
	Refused []error  // of earlier tries, which would only be repeated
}

// Creates says whether a child is to be created.
func (p *Plan) Creates() bool {
	return slices.ContainsFunc(p.Writes, func(a Action) bool { return a.Verb == VerbCreate })
}

// Build decides what has to be done for the children to be as desired. It is
// a pure function: it makes no request, reads no clock and writes no log.
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

// consider returns the write that one desired child needs, false if none. A
// child that needs none, or whose write was refused before, is noted.
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
	if err := load(s, d, in.Parent); err != nil {
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

// find returns the place of an object in a list that is in the order of
// handler.Children. The place at hint is looked at first.
func find(sorted []*resource.Resource, ref object.Ref, hint int) (int, bool) {
	if hint < len(sorted) && object.CompareRef(sorted[hint], ref) == 0 {
		return hint, true
	}
	return slices.BinarySearchFunc(sorted, ref, object.CompareRef)
}
