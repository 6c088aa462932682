package plan

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/resource"
)

// A Finding is what is known, or was found out by a request, about the child of
// an action: what the next action follows from.
type Finding interface{ isFinding() }

// A memorized finding is what is remembered of the child, nil if nothing is.
type memorized struct{ child *childMemory }

// A Normalized finding is the server's answer to a dry run: it accepts the
// desired state, and makes an object of it that differs only in Rest.
type Normalized struct{ Rest []merge.Difference }

// An Unchanged finding says that the write would change nothing but the mark.
type Unchanged struct{}

// A Claimed finding says that an object which exists, as before, would be live
// once the operator had taken it over as a child.
type Claimed struct{ Before, Live *resource.Resource }

// An Owned finding says that the child is live now, in which managedFields name
// the operator's applies as the owner of what the apply is to remove. Nothing
// else has changed.
type Owned struct{ Live *resource.Resource }

func (memorized) isFinding()  {}
func (Normalized) isFinding() {}
func (Unchanged) isFinding()  {}
func (Claimed) isFinding()    {}
func (Owned) isFinding()      {}

// Next returns the action that follows from a finding about the child of a. It
// returns false if nothing is to be done, and an action with verbNone if the
// child was compared and is as desired. It is a pure function.
func Next(s *catalog.Settings, a Action, f Finding) (Action, bool) {
	switch f := f.(type) {
	case Unchanged:
		a.Verb = VerbMark
		return a, true
	case Owned:
		a.Live, a.decoded, a.Owned = f.Live, f.Live.Unstructured().Object, true
		return a, true
	}
	live, known := a.Live, (*childMemory)(nil)
	switch f := f.(type) {
	case memorized:
		known = f.child
	case Normalized:
		known = accepting(a.Want, a.Live, f.Rest)
	case Claimed:
		live = f.Live
	}
	out, ok := decide(s, a.Want, live, known)
	if _, found := f.(Normalized); found {
		out.Restores = false // nobody knows when the child came to differ
	}
	return out, ok
}

// decide compares a child with its desired state, and says what it needs: see
// next.
func decide(s *catalog.Settings, d *Desired, live *resource.Resource, known *childMemory) (Action, bool) {
	a := Action{Kind: d.kind, Ref: d.ref, Live: live, Want: d, Unknown: known == nil}
	switch {
	case live == nil:
		a.Verb = VerbCreate
		return a, true
	case leftAlone(d, live, known):
		return Action{}, false
	}
	mark := readMark(s, live)
	a.compare(mark, known)
	a.Restores = known != nil && known.hash == d.Hash
	switch {
	case len(a.Diffs) == 0 && mark.hash == d.Hash:
		a.Verb = VerbNone
	case len(a.Diffs) == 0:
		a.Verb = VerbMark
	case d.kind.Child.Strategy == config.OnDelete:
		return Action{}, false
	case known == nil && mark.hash == d.Hash:
		a.Verb = VerbVerify
	default:
		a.Verb = writeVerb(d.kind)
	}
	return a, true
}

// compare fills in why the child of an action that is being made needs a write.
func (a *Action) compare(mark mark, known *childMemory) {
	var diffs []merge.Difference
	switch {
	case mark.hash != a.Want.Hash: // it was given another desired state
		a.former = mark.applied
		a.decoded = a.Live.Unstructured().Object
		diffs = a.Kind.Comparison.Collect(a.decoded, a.Want.Object, a.former)
	case !merge.Covers(a.Live, a.Want.Object):
		a.decoded = a.Live.Unstructured().Object
		diffs = a.Kind.Comparison.Compare(a.decoded, a.Want.Object, nil)
	}
	for _, diff := range diffs {
		if known.explains(diff) {
			a.explained = append(a.explained, diff.Path)
		} else {
			a.Diffs = append(a.Diffs, diff)
		}
	}
}

// leftAlone says whether a child needs nothing, whatever a comparison would
// find: it is being deleted, and created again once it is gone, or it was
// compared in this very state.
func leftAlone(d *Desired, live *resource.Resource, known *childMemory) bool {
	return live != nil && (live.IsDeleting() || known.settled(d, live))
}

// ExplainsAny says whether a difference of an action is only what the server
// makes of the desired state, if that differs from it in rest.
func ExplainsAny(a *Action, rest []merge.Difference) bool {
	known := accepting(a.Want, a.Live, rest)
	for _, d := range a.Diffs {
		if known.explains(d) {
			return true
		}
	}
	return false
}
