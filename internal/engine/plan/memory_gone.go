package plan

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// What is remembered of children that a pass isn't shown: those that are to be created anew, and
// those behind gates, which may be there without their labels.

// Inherit notes which parents were there when this process began.
func (m *Memory) Inherit(parents []types.UID) {
	for _, parent := range parents {
		m.Of(parent).inherited = true
	}
}

// KeepOnly drops what is remembered of all children that aren't among desired, and
// takes over the order of desired.
func (p *ParentMemory) KeepOnly(desired []*Desired) {
	if len(p.ending) > 0 {
		for _, d := range desired {
			if p.recreates(d) {
				p.Recreate(d)
			}
		}
	}
	p.planned, p.ending = true, nil
	p.children.keepOnly(desired)
	p.recreating, p.absent, p.drifts = only(desired, p.recreating), only(desired, p.absent), only(desired, p.drifts)
}

// only returns those of a set that are among desired, nil if there are none.
func only[V any](desired []*Desired, set map[object.Ref]V) map[object.Ref]V {
	if len(set) == 0 {
		return nil
	}
	still := make(map[object.Ref]V, len(set))
	for _, d := range desired {
		if v, ok := set[d.ref]; ok {
			still[d.ref] = v
		}
	}
	return still
}

// Recreate remembers that a child was deleted to be created anew, which no gate holds up.
func (p *ParentMemory) Recreate(d *Desired) {
	if p.recreating == nil {
		p.recreating = map[object.Ref]struct{}{}
	}
	p.recreating[d.ref] = struct{}{}
}

// Recreating reports whether a child was deleted to be created anew.
func (p *ParentMemory) Recreating(ref object.Ref) bool {
	_, ok := p.recreating[ref]
	return ok
}

// Made reports whether the child with this UID is remembered as one that the handler
// wanted.
func (p *ParentMemory) Made(child *resource.Resource) bool {
	return p.child(object.RefOf(child), child.UID()) != nil
}

// FindEnding remembers the children that are being deleted and that are recreated where they differ, until there was a
// plan. An earlier process may have deleted them to create them anew: it has, if they had another state than
// the desired one.
func (p *ParentMemory) FindEnding(s *catalog.Settings, children []*resource.Resource) {
	if p.planned {
		return
	}
	for _, child := range children {
		if !child.IsDeleting() {
			continue
		}
		k := s.Types.Of(child.Type())
		if k == nil || k.Child.Strategy != config.Recreate && !k.Child.RecreateImmutable {
			continue
		}
		if m := readMark(s, child); m.applied != nil {
			if p.ending == nil {
				p.ending = map[object.Ref]jsonvalue.Digest{}
			}
			p.ending[object.RefOf(child).Detached()] = m.hash
		}
	}
}

// recreates says whether a child was deleted to be created anew. One that the handler keeps as it is says no other state.
func (p *ParentMemory) recreates(d *Desired) bool {
	if _, ok := p.recreating[d.ref]; ok {
		return true
	}
	had, ended := p.ending[d.ref]
	return ended && !d.keep && (mark{hash: had}).gave(d, nil) == givenOther
}

// Absent remembers that a child behind a gate was sought, and isn't there.
func (p *ParentMemory) Absent(ref object.Ref) {
	if p.absent == nil {
		p.absent = map[object.Ref]struct{}{}
	}
	p.absent[ref.Detached()] = struct{}{}
}

// mayBeThere says whether a child that the pass wasn't shown may be there without its labels: there
// was one, or it isn't known whether there was.
func (p *ParentMemory) mayBeThere(ref object.Ref) bool {
	if _, absent := p.absent[ref]; absent {
		return false
	}
	return p.inherited || p.children.of(ref) != nil
}
