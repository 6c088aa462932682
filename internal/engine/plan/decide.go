package plan

import (
	"strconv"

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
//   - Normalized, Unchanged, Claimed, Disowned and Immutable: what a request has found out.
//     The room apply makes these.
//
// A Finding is immutable.
type Finding interface{ isFinding() }

// A memorized finding is what is remembered of the child. A nil child means that
// nothing is: the child was never accepted by this process, or is another object
// than the one remembered.
type memorized struct{ child *childMemory }

// A Normalized finding says what the API server makes of the desired state: an
// object that differs from it only in Rest. Differences of the live child that are
// in Rest, with the same values, are no reason to write. managedFields tell that, or
// the answer to a dry run. Confirmed says that it is the answer to an update with all
// the desired values.
type Normalized struct {
	Rest      []merge.Difference
	Confirmed bool
}

// An Unchanged finding says that the write of the action would change nothing but
// the mark, by the answer to a dry run.
type Unchanged struct{}

// A Claimed finding says what an object becomes that the operator takes over as a
// child, or whose owner reference it mends, by the answer to a dry run. Before is
// the object as it is now. Live is the same object with the operator's labels and
// the owner reference to the parent. If the object can't be tried by a dry run,
// Live is Before.
type Claimed struct{ Before, Live *resource.Resource }

// An Immutable finding says that the API server has refused to change a field of the child, and
// would create the child so.
type Immutable struct{}

// A Disowned finding says that by managedFields, the operator no longer owns the
// fields that are left to others. Live is the child as it is then.
type Disowned struct{ Live *resource.Resource }

func (memorized) isFinding()  {}
func (Normalized) isFinding() {}
func (Unchanged) isFinding()  {}
func (Claimed) isFinding()    {}
func (Disowned) isFinding()   {}
func (Immutable) isFinding()  {}

// Next returns the action that follows from a finding about the child of a. The
// verb of the new action says what is to be done:
//
//   - after Unchanged: VerbMark.
//   - after Disowned: the verb of a, on the child as it is now.
//   - after Immutable: VerbRecreate.
//   - after memorized: VerbMend if the owner reference or the label of the bucket isn't as it should be.
//   - after Claimed: VerbDelete if the object isn't desired, and nothing if it is to stay as it is.
//   - else after memorized, and after Normalized or Claimed: whatever a comparison
//     of the child with the desired state asks for.
//
// VerbNone means that the child was compared and is as desired. Next returns
// false if the child is to be left alone without that being known: the child is
// being deleted, was compared before in this state, or differs and has the strategy OnDelete. While the schema of
// its type isn't read, a child is not updated: Next returns false, with a verb if the child seems to differ, without one
// if only the mark does.
//
// Next is a pure function. It leaves a and f unchanged. An action to begin with
// needs no more than Live and Want.
func Next(s *catalog.Settings, a Action, f Finding) (Action, bool) {
	if _, ok := f.(Unchanged); ok {
		a.Verb = VerbMark
		return a, true
	}
	if _, ok := f.(Immutable); ok {
		a.Verb = VerbRecreate
		return a, true
	}
	if f, ok := f.(Disowned); ok {
		a.Live, a.compared, a.disowned = f.Live, comparison{live: f.Live, object: f.Live.Unstructured().Object}, true
		return a, true
	}
	live, known := a.Live, (*childMemory)(nil)
	switch f := f.(type) {
	case memorized:
		known = f.child
		if a, ok := mend(s, a.Want, live, known); ok {
			return a, true
		}
	case Normalized:
		known = accepting(a.Want, a.Live, f.Rest)
		known.confirm(f.Confirmed)
	case Claimed:
		live = f.Live
	}
	switch {
	case a.Want == nil: // an object that isn't desired was adopted
		return Action{Verb: VerbDelete, Kind: a.Kind, Ref: a.Ref, Live: live, Repeated: a.Repeated}, true
	case a.Want.keep: // it was adopted, and stays as it is otherwise
		return Action{}, false
	}
	out, ok := decide(s, a.Want, live, known, a.compared)
	out.Repeated = a.Repeated
	if _, found := f.(Normalized); found {
		out.Restores = false // nobody knows when the child came to differ
	}
	return out, ok
}

// mend returns the action that brings the owner reference and the label of the bucket of a live child up to
// date, false if it is. It goes before any other action on the child, since it has
// to be right whatever the strategy makes of other differences.
func mend(s *catalog.Settings, d *Desired, live *resource.Resource, known *childMemory) (Action, bool) {
	if live == nil || leftAlone(d, live, known) {
		return Action{}, false
	}
	diffs := ownerDifferences(s, live, d.parent)
	if s.Shard.Divides() && !s.IsStamped(live) {
		has, _ := live.Label(s.Bucket)
		diffs = append(diffs, merge.Difference{Path: "metadata.labels[" + strconv.Quote(s.Bucket) + "]", Live: has, Desired: s.BucketOf(d.parent.UID())})
	}
	return Action{
		Verb: VerbMend, Kind: d.kind, Ref: d.ref, Live: live, Want: d, Diffs: diffs,
		Unknown: known == nil, Restores: known != nil,
	}, len(diffs) > 0
}

// decide compares a live child with its desired state, and returns the action
// that the child needs. live is nil if the child doesn't exist. known is what is
// remembered of the live child, nil if nothing is. before is the comparison that was
// made last, of whatever objects. The results are those of Next.
func decide(s *catalog.Settings, d *Desired, live *resource.Resource, known *childMemory, before comparison) (Action, bool) {
	a := Action{Kind: d.kind, Ref: d.ref, Live: live, Want: d, Unknown: known == nil}
	switch {
	case live == nil:
		a.Verb = VerbCreate
		return a, true
	case leftAlone(d, live, known):
		return Action{}, false
	}
	mark := readMark(s, live)
	was := mark.gave(d, known)
	a.compare(mark, was, known, before)
	a.Restores = known != nil && known.hash == d.hash
	a.outdated = was != givenThis && !a.Restores
	switch {
	case len(a.Doubtful) > 0:
		a.Verb = VerbVerify
	case len(a.Diffs) == 0 && was == givenOther && d.kind.SchemaPending():
		return Action{}, false // the mark, too, depends on the schema
	case len(a.Diffs) == 0 && mark.hash == d.markHash() && !outdatedMark(s, d, live):
		a.Verb = VerbNone
	case len(a.Diffs) == 0 && !a.saysMore:
		a.Verb = VerbMark
	case d.kind.Child.Strategy == config.OnDelete:
		return Action{}, false
	default:
		a.Verb = writeVerb(d.kind)
	}
	return a, a.Verb == VerbNone || !d.kind.SchemaPending()
}

// compare fills in the reasons for an action that decide is making: the fields
// that differ, those that known explains, and those that are doubtful. The mark is
// that of the live child, and was is what the child was given.
func (a *Action) compare(mark mark, was given, known *childMemory, before comparison) {
	other := was == givenOther
	if other {
		a.former, a.unmarked = mark.applied, mark.applied == nil
	}
	switch {
	case before.of(a.Live, a.Want, other):
		a.compared = before
	case other || !a.Kind.Comparison.Covers(a.Live, a.Want.object):
		object := a.Live.Unstructured().Object
		a.compared = comparison{live: a.Live, want: a.Want, former: other, object: object, diffs: a.Kind.Comparison.Collect(object, a.Want.object, a.former)}
	}
	diffs := a.compared.diffs
	if known == nil && was != givenOther && a.Kind.Child.Strategy != config.OnDelete {
		a.Diffs, a.Doubtful, a.unsure = diffs, diffs, was == givenNames && len(diffs) > 0
		return
	}
	a.explained, a.Diffs = known.split(diffs)
	if len(a.explained) > 0 {
		a.confirmed = known.exceptions.confirmed
		a.doubt(was, known)
	}
	a.saysMore = len(a.Diffs) == 0 && was == givenOther && saysMore(a.Want, a.former)
}

// saysMore says whether a desired state sets other fields than the former one did,
// outside of the metadata. If no such field has to be written, the API server has made
// the values of the new ones before. What it has made beside them may still follow from
// their absence. Only an update can find that out. A field that is left to others from
// now on, or was before, makes no difference.
func saysMore(d *Desired, former *merge.FieldSet) bool {
	switch d.kind.Child.Strategy {
	case config.Replace, config.Apply:
		return former != nil && !d.said().EqualExcept(former, "metadata") && !d.kind.Comparison.Record(d.object).EqualExcept(former, "metadata")
	}
	return false
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
	explained, _ := Explained(a.Diffs, rest)
	return len(explained) > 0
}
