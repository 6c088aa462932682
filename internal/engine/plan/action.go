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
	VerbVerify   Verb = "verify"   // find out by a dry run whether the child really differs
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

	// Doubtful are the differences of which VerbVerify is to find out whether they are
	// only what the API server made of the desired values.
	Doubtful []merge.Difference

	outdated  bool               // the child was given another desired state than the present one, as far as its mark and the memory tell
	unsure    bool               // of Doubtful: see Unsure
	disowned  bool               // by managedFields, the operator no longer owns the fields that are left to others
	former    *merge.FieldSet    // the fields of an earlier desired state; nil if the desired state is the same
	unmarked  bool               // nobody knows what an earlier desired state had set
	explained []merge.Difference // differences that are only what the API server made of the desired values
	saysMore  bool               // Diffs is empty, though the desired state sets other fields than the former one
	confirmed bool               // an update with the desired values leads to those that are explained
	compared  comparison         // what the last comparison has found
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

// settledPaths returns the paths at which a write keeps the live values. The API
// server would make those same values of the desired ones again, or a webhook has
// made them when the child was created. A path below which another field is to be
// written isn't among them. Nor is the path of a field that was added to an object,
// if another field of that object is to be written: what was added may follow from
// what is written. Nor are fields that an update may as well send: the answer then
// tells what becomes of them today.
func (a *Action) settledPaths() []string {
	paths := []string{}
	for _, d := range a.explained {
		sent := a.confirmed || d.Live == nil && a.Verb == VerbUpdate || a.Verb == VerbVerify && isDoubtful(a, d)
		around := d.Path
		if d.Desired == nil {
			around = d.ObjectPath()
		}
		if !sent && !slices.ContainsFunc(a.Diffs, func(written merge.Difference) bool { return isBelow(written.Path, around) }) {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// isBelow says whether a path leads to another one, or to a field in it.
func isBelow(path, above string) bool {
	below, ok := strings.CutPrefix(path, above)
	return ok && (below == "" || below[0] == '.' || below[0] == '[')
}

// Confirms says whether the answer to the write tells what an update with all the
// desired values leads to.
func (a *Action) Confirms() bool {
	return a.confirmed || (a.Verb == VerbUpdate || a.Verb == VerbApply) && len(a.settledPaths()) == 0
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
