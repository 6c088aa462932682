package runner

import (
	"cmp"
	"slices"
	"strings"

	"github.com/roperator/roperator/resource"
)

// A verb is what is to be done with one child.
type verb string

const (
	verbCreate   verb = "create"
	verbUpdate   verb = "update"   // replace it under its resourceVersion
	verbApply    verb = "apply"    // server-side apply
	verbRecreate verb = "recreate" // delete it now, create it once it is gone
	verbMark     verb = "mark"     // it satisfies the desired state; only the mark is old
	verbVerify   verb = "verify"   // find out by a dry run whether it really differs
	verbDelete   verb = "delete"   // it is no longer desired
)

// An action is one step of a pass.
type action struct {
	verb verb
	kind *kind
	ref  objectRef
	live *resource.Resource // nil: there is none
	want *desiredChild      // nil: delete
	// decoded is what liveObject returns.
	decoded map[string]any
	// diffs are the reasons, former what an earlier desired state had set.
	diffs  []difference
	former *applied
	// explained are the paths of differences that the server made itself when
	// it accepted the desired state.
	explained []string
	// unknown: nothing is remembered of the child.
	unknown bool
	// restores: the desired state is the one that was accepted before, so
	// that someone else has changed the child since.
	restores bool
}

// liveObject returns the live object, decoded once for all who only read it.
func (a *action) liveObject() map[string]any {
	if a.decoded == nil {
		a.decoded = a.live.Unstructured().Object
	}
	return a.decoded
}

// settledPaths are the paths at which a write leaves the live values: the
// server wouldn't take ours, or make the same of them again. A path that
// differs further down isn't settled.
func (a *action) settledPaths() []string {
	return slices.DeleteFunc(slices.Clone(a.explained), func(path string) bool {
		return slices.ContainsFunc(a.diffs, func(d difference) bool {
			below, ok := strings.CutPrefix(d.Path, path)
			return ok && (below == "" || below[0] == '.' || below[0] == '[')
		})
	})
}

// A planInput is all that decides about the children of one parent.
type planInput struct {
	parent   *resource.Resource
	desired  []*desiredChild
	keepAll  bool                 // the children are left as they are
	children []*resource.Resource // in the order of handler.Children
	memory   *parentMemory
}

// A plan is what one pass does to the children.
type plan struct {
	writes  []action // in the order of the types
	deletes []action
	// settled are children that were compared and found to be as desired.
	settled []action
	// refused are errors of earlier tries that would only be repeated.
	refused []error
}

func (p *plan) creates() bool {
	return slices.ContainsFunc(p.writes, func(a action) bool { return a.verb == verbCreate })
}

// plan decides what has to be done for the children to be as desired. It is a
// pure function: no request, no clock, no log.
func (s *settings) plan(in planInput) plan {
	var p plan
	if in.keepAll {
		return p
	}
	wanted := make([]bool, len(in.children))
	var byOrder [][]action
	next := 0 // mostly, desired children come in an order like that of the live ones
	for _, d := range in.desired {
		var was *resource.Resource
		if i, ok := find(in.children, d.ref, next); ok {
			was, wanted[i], next = in.children[i], true, i+1
		}
		if d.keep {
			continue
		}
		remembered := in.memory.remembered(d)
		if err := remembered.refuses(d, was); err != nil {
			p.refused = append(p.refused, err)
			continue
		}
		known := remembered.of(was)
		if leftAlone(d, was, known) {
			continue
		}
		if err := s.load(d, in.parent); err != nil {
			p.refused = append(p.refused, err)
			continue
		}
		a, ok := s.decide(d, was, known)
		switch {
		case !ok:
		case a.verb == "":
			p.settled = append(p.settled, a)
		default:
			if byOrder == nil {
				byOrder = make([][]action, len(s.types.children))
			}
			byOrder[d.kind.order] = append(byOrder[d.kind.order], a)
		}
	}
	for _, actions := range byOrder {
		p.writes = append(p.writes, actions...)
	}
	for i, child := range in.children {
		if wanted[i] || child.IsDeleting() {
			continue
		}
		if k := s.types.byType[child.Type()]; k != nil {
			p.deletes = append(p.deletes, action{verb: verbDelete, kind: k, ref: refOf(child), live: child})
		}
	}
	return p
}

// find returns the place of an object in a list as planInput has it; hint is
// where it is looked for first.
func find(sorted []*resource.Resource, ref objectRef, hint int) (int, bool) {
	if hint < len(sorted) && compareRef(sorted[hint], ref) == 0 {
		return hint, true
	}
	return slices.BinarySearchFunc(sorted, ref, compareRef)
}

// compareRef orders as handler.Children are.
func compareRef(res *resource.Resource, ref objectRef) int {
	if t := res.Type(); t != ref.Type {
		return cmp.Or(strings.Compare(t.APIVersion, ref.Type.APIVersion), strings.Compare(t.Kind, ref.Type.Kind))
	}
	return cmp.Or(strings.Compare(res.Namespace(), ref.Key.Namespace), strings.Compare(res.Name(), ref.Key.Name))
}

// leftAlone says that a child needs nothing whatever a comparison would find:
// it is going, and created again once it is gone, or was compared as it is.
func leftAlone(d *desiredChild, live *resource.Resource, known *childMemory) bool {
	return live != nil && (live.IsDeleting() || known.settled(d, live))
}

// decide says what one desired child needs, false if nothing. An action
// without a verb is a child that was compared and is as desired.
func (s *settings) decide(d *desiredChild, live *resource.Resource, known *childMemory) (action, bool) {
	a := action{kind: d.kind, ref: d.ref, live: live, want: d}
	switch {
	case live == nil:
		a.verb = verbCreate
		return a, true
	case leftAlone(d, live, known):
		return action{}, false
	}
	mark := s.readMark(live)
	a.unknown = known == nil
	var diffs []difference
	switch {
	case mark.hash != d.hash: // it was meant to be something else
		a.former = mark.applied
		diffs = d.kind.comparison.collect(a.liveObject(), d.object, a.former)
	case !covers(live, d.object):
		diffs = d.kind.comparison.compare(a.liveObject(), d.object, nil)
	}
	for _, diff := range diffs {
		if known.explains(diff) {
			a.explained = append(a.explained, diff.Path)
		} else {
			a.diffs = append(a.diffs, diff)
		}
	}
	a.restores = known != nil && known.hash == d.hash
	switch {
	case len(a.diffs) == 0 && mark.hash == d.hash:
		return a, true
	case len(a.diffs) == 0:
		a.verb = verbMark
	case d.kind.child.Strategy == onDelete:
		return action{}, false
	case known == nil && mark.hash == d.hash:
		a.verb = verbVerify
	default:
		a.verb = writeVerb(d.kind)
	}
	return a, true
}
