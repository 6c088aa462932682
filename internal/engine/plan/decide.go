package plan

import (
	"slices"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/resource"
)

// A Finding is a fact about the child of an action, from which Next derives what
// is to be done. The kinds of findings are:
//
//   - memorized: what earlier passes have learned of the child. Every decision
//     begins with this finding, and only Build makes it.
//   - Normalized, Unchanged, Claimed and Owned: what a request has found out. The
//     room apply makes these.
//
// A Finding is immutable.
type Finding interface{ isFinding() }

// A memorized finding is what is remembered of the child. A nil child means that
// nothing is: the child was never accepted by this process, or is another object
// than the one remembered.
type memorized struct{ child *childMemory }

// A Normalized finding says what the API server makes of the desired state, by
// the answer to a dry run. The server accepts the desired state, and the object
// that it makes of the desired state differs from it only in Rest. Differences of
// the live child that are in Rest, with the same values, are no reason to write.
type Normalized struct{ Rest []merge.Difference }

// An Unchanged finding says that the write of the action would change nothing but
// the mark, by the answer to a dry run.
type Unchanged struct{}

// A Claimed finding says what an object becomes that the operator takes over as a
// child, by the answer to a dry run. Before is the object as it is now. Live is
// the same object with the operator's labels and the parent's owner reference. If
// the object can't be tried by a dry run, Live is Before.
type Claimed struct{ Before, Live *resource.Resource }

// An Owned finding says that a request has changed the managedFields of the
// child, and nothing else. By the new managedFields, the operator's applies own
// every field that the apply is to remove. Live is the child after that request.
type Owned struct{ Live *resource.Resource }

func (memorized) isFinding()  {}
func (Normalized) isFinding() {}
func (Unchanged) isFinding()  {}
func (Claimed) isFinding()    {}
func (Owned) isFinding()      {}

// Next returns the action that follows from a finding about the child of a. The
// verb of the new action says what is to be done:
//
//   - after Unchanged: VerbMark.
//   - after Owned: the verb of a, on the child as it is now.
//   - after memorized, Normalized or Claimed: whatever a comparison of the child
//     with the desired state asks for.
//
// VerbNone means that the child was compared and is as desired. Next returns
// false if the child is to be left alone without that being known: the child is
// being deleted, was compared before in this state, or differs and has the
// strategy OnDelete.
//
// Next is a pure function. It leaves a and f unchanged. An action to begin with
// needs no more than Live and Want.
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

// decide compares a live child with its desired state, and returns the action
// that the child needs. live is nil if the child doesn't exist. known is what is
// remembered of the live child, nil if nothing is. The results are those of Next.
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
	a.Restores = known != nil && known.hash == d.hash
	switch {
	case len(a.Diffs) == 0 && mark.hash == d.hash:
		a.Verb = VerbNone
	case len(a.Diffs) == 0:
		a.Verb = VerbMark
	case d.kind.Child.Strategy == config.OnDelete:
		return Action{}, false
	case known == nil && mark.hash == d.hash:
		a.Verb = VerbVerify
	default:
		a.Verb = writeVerb(d.kind)
	}
	return a, true
}

// compare fills in the reasons for an action that decide is making: the fields
// that differ, and those that known explains. The mark is that of the live child.
func (a *Action) compare(mark mark, known *childMemory) {
	var diffs []merge.Difference
	switch {
	case mark.hash != a.Want.hash: // the child was last given another desired state
		a.former = mark.applied
		a.decoded = a.Live.Unstructured().Object
		diffs = a.Kind.Comparison.Collect(a.decoded, a.Want.object, a.former)
	case !merge.Covers(a.Live, a.Want.object):
		a.decoded = a.Live.Unstructured().Object
		diffs = a.Kind.Comparison.Compare(a.decoded, a.Want.object, nil)
	}
	for _, diff := range diffs {
		if known.explains(diff) {
			a.explained = append(a.explained, diff.Path)
		} else {
			a.Diffs = append(a.Diffs, diff)
		}
	}
}

// leftAlone says whether a live child needs nothing, whatever a comparison would
// find. A child that is being deleted is created again once it is gone. A child
// that was compared in this very state needn't be compared again.
func leftAlone(d *Desired, live *resource.Resource, known *childMemory) bool {
	return live != nil && (live.IsDeleting() || known.settled(d, live))
}

// ExplainsAny says whether rest explains any difference for which the child of a
// is to be written. rest are the differences between the desired state and what
// the API server makes of it.
func ExplainsAny(a *Action, rest []merge.Difference) bool {
	return slices.ContainsFunc(a.Diffs, accepting(a.Want, a.Live, rest).explains)
}
