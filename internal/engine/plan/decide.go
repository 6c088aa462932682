package plan

import (
	"slices"
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
//   - Normalized, Rejection, Owned, Unchanged, Changing, Claimed, Disowned and Immutable: what a request has found out.
//     The room apply makes these.
//
// A Finding is immutable.
type Finding interface{ isFinding() }

// A memorized finding is what is remembered of the child. A nil child means that
// nothing is: the child was never accepted by this process, or is another object
// than the one remembered.
// own are the operator's entries in managedFields in this state, if they are known. drift is what was rejected of its correction, nil
// if nothing was, or if it is to be tried again.
type memorized struct {
	child *childMemory
	own   ownership
	drift *keptDrift
}

// An ownership is what is known of the managedFields of a child: the operator's entries, and those of
// others.
type ownership struct {
	all             bool // these are all entries; else those of the operator, as far as they are known
	entries, theirs []string
}

// A Normalized finding says what the API server makes of the desired state: an
// object that differs from it only in Rest. Differences of the live child that are
// in Rest, with the same values, are no reason to write.
type Normalized struct{ Rest []merge.Difference }

// An Owned finding says which fields of the child the operator and others own: the fieldsV1 of each
// entry in managedFields.
type Owned struct{ Entries, Theirs []string }

// An Unchanged finding says that the write of the action would change nothing but
// the mark, by the answer to a dry run.
type Unchanged struct{}

// A Changing finding says that the write of the action would change the child, or that nobody can tell.
type Changing struct{}

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
func (Rejection) isFinding()  {}
func (Normalized) isFinding() {}
func (Owned) isFinding()      {}
func (Unchanged) isFinding()  {}
func (Changing) isFinding()   {}
func (Claimed) isFinding()    {}
func (Disowned) isFinding()   {}
func (Immutable) isFinding()  {}

// Next returns the action that follows from a finding about the child of a. The
// verb of the new action says what is to be done:
//
//   - after Unchanged: VerbMark, or VerbNone if the mark is as it should be.
//   - after Changing: that of a.
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
		if readMark(s, a.Live).hash == a.Want.markHash() && !outdatedMark(s, a.Want, a.Live) {
			a.Verb = VerbNone
		}
		return a, true
	}
	if _, ok := f.(Changing); ok {
		a.ask = AskNothing
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
	live, known, own, rejected, restores := a.Live, (*childMemory)(nil), ownership{}, a.Rejection, false
	var kept *keptDrift
	switch f := f.(type) {
	case memorized:
		known, own, kept = f.child, f.own, f.drift
		restores = known != nil && known.hash == a.Want.hash
		if a, ok := mend(s, a.Want, live, known); ok {
			return a, true
		}
	case Normalized:
		known = accepting(a.Want, a.Live, f.Rest)
	case Rejection:
		known = accepting(a.Want, a.Live, a.Chosen(f.Diffs))
		if rejected != nil {
			f.Diffs = slices.Concat(rejected.Diffs, f.Diffs)
		}
		rejected, a.Rejection, restores = &f, &f, a.Restores
	case Owned:
		own = ownership{all: true, entries: f.Entries, theirs: f.Theirs}
	case Claimed:
		live = f.Live
	}
	switch {
	case a.Want == nil: // an object that isn't desired was adopted
		return Action{Verb: VerbDelete, Kind: a.Kind, Ref: a.Ref, Live: live, Repeated: a.Repeated}, true
	case a.Want.keep: // it was adopted, and stays as it is otherwise
		return Action{}, false
	}
	a.Restores = restores
	out, ok := decide(s, a.Want, live, known, own, kept, &a)
	out.Repeated, out.Rejection = a.Repeated, rejected
	if _, is := f.(Rejection); is {
		out.Unknown = a.Unknown
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
// remembered of the live child, nil if nothing is. before is the action of which something was found out. The results are those of
// Next.
func decide(s *catalog.Settings, d *Desired, live *resource.Resource, known *childMemory, own ownership, kept *keptDrift, before *Action) (Action, bool) {
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
	a.compare(mark, was, known, own, kept, before)
	a.Restores = before.Restores
	switch {
	case len(a.Diffs) == 0 && was == givenOther && d.kind.SchemaPending():
		return Action{}, false // the mark, too, depends on the schema
	case len(a.Diffs) == 0 && mark.hash == d.markHash() && !outdatedMark(s, d, live):
		a.Verb = VerbNone
	case len(a.Diffs) == 0 && !a.saysMore:
		a.Verb = VerbMark
		if path := markPath(s); a.Drifted() && (kept.has(path) || before.foreign(path)) {
			a.Verb, a.kept.rejected = VerbNone, append(a.kept.rejected, merge.Difference{Path: path})
		}
	case d.kind.Child.Strategy == config.OnDelete:
		return Action{}, false
	default:
		a.Verb = writeVerb(d.kind)
		if a.Verb == VerbRecreate && a.Drifted() {
			a.Verb = VerbUpdate // only another desired state recreates a child
		}
		if a.Unknown && a.Drifted() && a.ask == AskNothing {
			a.ask = AskUpdate
		}
	}
	if a.ask == AskChoice && a.Verb != VerbUpdate && a.Verb != VerbApply {
		a.ask = AskNothing
	}
	return a, a.Verb == VerbNone || !d.kind.SchemaPending()
}

// compare fills in the reasons for an action that decide is making: the fields
// that differ, and those at which the API server has chosen the value. The mark is
// that of the live child, and was is what the child was given.
//
// If nothing is remembered of the child, but it was given this very state, the fields that
// the operator still owns were changed by nobody else.
func (a *Action) compare(mark mark, was given, known *childMemory, own ownership, kept *keptDrift, before *Action) {
	other := was == givenOther
	if other {
		a.former, a.unmarked = mark.applied, mark.applied == nil
	}
	switch {
	case before.compared.of(a.Live, a.Want, other):
		a.compared = before.compared
	case other || !a.Kind.Comparison.Covers(a.Live, a.Want.object):
		object := a.Live.Unstructured().Object
		a.compared = comparison{live: a.Live, want: a.Want, former: other, object: object, diffs: a.Kind.Comparison.Collect(object, a.Want.object, a.former)}
	}
	a.was = was
	diffs := a.split(known, kept, before)
	a.kept.chosen, a.Diffs = known.split(diffs)
	switch {
	case known == nil && was == givenThis && len(diffs) > 0 && a.Kind.Child.Strategy != config.OnDelete:
		a.kept.chosen, a.Diffs = own.split(&a.Kind.Comparison, diffs)
		a.lost = own.all && len(own.entries) == 0
		if !own.all && (len(own.entries) == 0 || slices.ContainsFunc(a.Diffs, isFilled)) {
			a.ask = AskFields
		}
	case known != nil && known.hash != a.Want.hash && slices.ContainsFunc(a.kept.chosen, func(d merge.Difference) bool { return d.Live != nil }):
		a.ask = AskChoice
	}
	a.saysMore = len(a.Diffs) == 0 && was == givenOther && saysMore(a.Want, a.former)
}

// split takes the differences off those of the comparison at which the live value stays, whatever is desired, and returns the
// others.
func (a *Action) split(known *childMemory, kept *keptDrift, before *Action) (others []merge.Difference) {
	others = a.compared.diffs
	if len(others) == 0 {
		return others
	}
	in := func(list []merge.Difference, d merge.Difference) bool {
		return slices.ContainsFunc(list, func(other merge.Difference) bool { return other.Path == d.Path })
	}
	a.kept.oneWay, others = splitOneWay(a.Kind, a.compared.object, others, func(d merge.Difference) bool {
		return a.was == givenThis || known.desires(d) || in(before.kept.oneWay, d)
	})
	if a.kept.rejected, others = kept.split(others); len(before.kept.rejected) > 0 {
		var more []merge.Difference
		for _, d := range others {
			if in(before.kept.rejected, d) {
				a.kept.rejected = append(a.kept.rejected, d)
			} else {
				more = append(more, d)
			}
		}
		others = more
	}
	return others
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
