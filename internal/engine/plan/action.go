package plan

import (
	"slices"
	"strings"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Verb is what is to be done with one child.
type Verb string

// The verbs of actions.
const (
	VerbCreate   Verb = "create"   // create the child
	VerbAdopt    Verb = "adopt"    // make an unlabelled object a child; whether it is desired, and as desired, is found out afterwards
	VerbUpdate   Verb = "update"   // replace the child under its resourceVersion
	VerbApply    Verb = "apply"    // send the child as a server-side apply
	VerbRecreate Verb = "recreate" // delete the child now; a later pass creates it anew
	VerbMark     Verb = "mark"     // bring the mark up to date; the rest of the child is as desired
	VerbMend     Verb = "mend"     // bring the owner reference and the label of the bucket up to date; whether the rest is as desired is found out afterwards
	VerbDelete   Verb = "delete"   // delete the child, which is no longer desired
	VerbRelease  Verb = "release"  // take finalizers that are no longer desired off a child that is being deleted
	VerbRetain   Verb = "retain"   // take the labels and the owner reference off the child, which survives its parent
	VerbNone     Verb = ""         // do nothing: the child was compared, and is as desired
)

// An Action is one step of a pass: what is to be done with one child, and why.
//
// An Action is immutable: its fields are read only, and so is all that they point
// to. If a request finds out that something else is to be done, Next returns
// another Action.
type Action struct {
	Verb Verb
	Kind *catalog.Kind
	Ref  object.Ref
	Live *resource.Resource // the child as the pass saw it; nil: it doesn't exist
	Want *Desired           // the desired child; nil for a delete, and if an object is adopted that isn't desired

	Diffs    []merge.Difference // the fields for which the child is to be written
	Unknown  bool               // nothing is remembered of the child
	Restores bool               // the desired state was accepted before, so somebody else has changed the child
	Repeated bool               // the same write came to nothing in the last pass: it was refused, or a newer state was awaited
	Sought   bool               // of VerbCreate: a gate is closed, so the child is taken if it has lost its labels, and isn't created
	// Rejection is what the API server has rejected of the correction of drift: these fields keep their live values. Nil: nothing.
	Rejection *Rejection

	ask      Question        // before anything else is done
	was      given           // what the child was given
	kept     keptValues      // where the live values stay
	lost     bool            // managedFields don't tell which fields the operator owns
	disowned bool            // by managedFields, the operator no longer owns the fields that are left to others
	former   *merge.FieldSet // the fields of an earlier desired state; nil if the desired state is the same
	unmarked bool            // nobody knows what an earlier desired state had set
	saysMore bool            // Diffs is empty, though the desired state sets other fields than the former one
	compared comparison      // what the last comparison has found
}

// A Question is what has to be asked before an action is carried out.
type Question uint8

// The questions.
const (
	AskNothing Question = iota
	AskFields           // which fields of the child the operator owns: managedFields
	AskChoice           // which of the values that the API server has chosen for an earlier desired state it still chooses: a dry run of a creation
	AskUpdate           // whether the update changes anything that is desired: a dry run. Nothing is written for a value that was chosen
)

// The keptValues are the differences of an action at which the live value stays.
type keptValues struct {
	chosen   []merge.Difference // the API server, or a webhook, has chosen it
	rejected []merge.Difference // its correction was rejected in an earlier pass
	oneWay   []merge.Difference // no write can undo it
}

// A comparison is what the comparison of a live child with a desired state has found. It
// is kept, since most findings about a child ask for the same one again.
type comparison struct {
	live   *resource.Resource // nil: nothing was compared
	want   *Desired           // nil: live was decoded, and not compared
	former bool               // fields that an earlier desired state had set were looked for, too
	object map[string]any     // live as JSON values
	diffs  []merge.Difference
}

// of says whether the comparison is one of these objects.
func (c *comparison) of(live *resource.Resource, want *Desired, former bool) bool {
	return c.live != nil && c.live == live && c.want == want && c.former == former
}

// Rest returns the fields in which live, the child or what a write has made of it,
// doesn't satisfy the desired state.
func (a *Action) Rest(live *resource.Resource) []merge.Difference {
	switch {
	case a.compared.of(live, a.Want, false):
		return a.compared.diffs
	case a.Kind.Comparison.Covers(live, a.Want.object):
		return nil
	}
	return a.Kind.Comparison.Compare(live.Unstructured().Object, a.Want.object, nil)
}

// LiveObject returns the live object as JSON values. The map is read only.
func (a *Action) LiveObject() map[string]any {
	if a.compared.object != nil && a.compared.live == a.Live {
		return a.compared.object
	}
	return a.Live.Unstructured().Object
}

// HandsOver says whether the child is the first to have fields left to others (see
// handler.Leave) that an earlier desired state had set. By managedFields, the operator
// owns them until a Disowned finding has said that it doesn't.
func (a *Action) HandsOver() bool {
	switch a.Verb {
	case VerbUpdate, VerbApply, VerbMark:
		return !a.disowned && a.former.HoldsAny(a.Want.left)
	}
	return false
}

// Ask returns what has to be asked before the action is carried out.
func (a *Action) Ask() Question { return a.ask }

// Chosen returns more differences, and those at which the API server has chosen the value.
func (a *Action) Chosen(more []merge.Difference) []merge.Difference {
	return slices.Concat(a.kept.chosen, more)
}

// Drifted reports whether the action corrects what another client has changed: the child was given the desired state before.
func (a *Action) Drifted() bool {
	return a.Live != nil && a.Want != nil && (a.was == givenThis || a.Restores)
}

// Corrects reports whether the action is a write that corrects drift. If the API server rejects it, that is no error of the child.
func (a *Action) Corrects() bool {
	return a.Drifted() && (a.Verb == VerbUpdate || a.Verb == VerbApply || a.Verb == VerbMark)
}

// outdated reports whether the child was given another desired state than the present one, as far as its mark and the memory tell.
func (a *Action) outdated() bool { return a.Live != nil && a.was == givenOther && !a.Restores }

// Untraced reports whether nothing tells who has made the differences: managedFields have no entry of the operator, and nothing is
// remembered of the child.
func (a *Action) Untraced() bool { return a.lost }

// Reject returns the finding that the API server has rejected the action, which Corrects, for these fields. If it names
// none that the action would write, or rejects the rest, too, nothing can be corrected.
func (a *Action) Reject(s *catalog.Settings, fields []string, err error) Rejection {
	in := a.namedBy(fields)
	switch {
	case a.Verb == VerbMark:
		in = []merge.Difference{{Path: markPath(s)}}
	case len(in) == 0, a.Rejection != nil:
		in = a.Diffs
	}
	return Rejection{Diffs: in, Err: err}
}

// settledPaths returns the paths at which a write keeps the live values: the API server has
// chosen them for the same desired values. A path below which another field is to be
// written isn't among them. Nor is the path of a field that was added to an object,
// if another field of that object is to be written: what was added may follow from
// what is written. A value that the API server rejects is never written.
func (a *Action) settledPaths() []string {
	paths := a.foreignPaths()
	for _, d := range a.kept.chosen {
		around := d.Path
		if d.Desired == nil {
			around = d.ObjectPath()
		}
		sent := d.Live == nil && a.Verb == VerbUpdate // the answer tells what becomes of it today
		if !sent && !slices.ContainsFunc(a.Diffs, func(written merge.Difference) bool { return isBelow(written.Path, around) }) {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// foreign reports whether a field keeps another client's value.
func (a *Action) foreign(path string) bool { return slices.Contains(a.foreignPaths(), path) }

// foreignPaths returns the paths of fields that keep another client's value, since the API server rejects another one.
func (a *Action) foreignPaths() []string {
	paths := []string{}
	stays := slices.Concat(a.kept.rejected, a.kept.oneWay)
	if a.Rejection != nil {
		stays = append(stays, a.Rejection.Diffs...)
	}
	for _, d := range stays {
		paths = append(paths, d.Path)
	}
	return paths
}

// isBelow says whether a path leads to another one, or to a field in it.
func isBelow(path, above string) bool {
	below, ok := strings.CutPrefix(path, above)
	return ok && (below == "" || below[0] == '.' || below[0] == '[')
}

// writeVerb returns the verb that changes a differing child of type k, by the
// strategy of the type. OnDelete, which changes no child, isn't asked for.
func writeVerb(k *catalog.Kind) Verb {
	switch k.Child.Strategy {
	case config.Recreate:
		return VerbRecreate
	case config.Apply:
		return VerbApply
	}
	return VerbUpdate
}

// SplitDeletes splits deletes in two. Those of a type with DeleteFirst (see
// config.Child) are early: they go before the writes of the type. All others are
// late: they go after all writes. Both lists keep the order of deletes.
func SplitDeletes(deletes []Action) (early, late []Action) {
	for _, a := range deletes {
		if a.Kind.Child.DeleteFirst {
			early = append(early, a)
		} else {
			late = append(late, a)
		}
	}
	return early, late
}
