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
	VerbUpdate   Verb = "update"   // replace the child under its resourceVersion
	VerbApply    Verb = "apply"    // send the child as a server-side apply
	VerbRecreate Verb = "recreate" // delete the child now; a later pass creates it anew
	VerbMark     Verb = "mark"     // bring the mark up to date; the rest of the child is as desired
	VerbVerify   Verb = "verify"   // find out by a dry run whether the child really differs
	VerbDelete   Verb = "delete"   // delete the child, which is no longer desired
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
	Want *Desired           // the desired child; nil for a delete

	Diffs    []merge.Difference // the fields for which the child is to be written
	Unknown  bool               // nothing is remembered of the child
	Restores bool               // the desired state was accepted before, so somebody else has changed the child
	Owned    bool               // by managedFields, the operator's applies own all fields that the apply is to remove

	former    *merge.FieldSet // the fields of an earlier desired state; nil if the desired state is the same
	explained []string        // the paths at which the child differs only as the API server made it differ
	decoded   map[string]any  // Live as JSON values; nil if nothing has needed it yet
}

// LiveObject returns the live object as JSON values. The map is read only.
func (a *Action) LiveObject() map[string]any {
	if a.decoded != nil {
		return a.decoded
	}
	return a.Live.Unstructured().Object
}

// settledPaths returns the paths at which a write keeps the live values. The API
// server would make those same values of the desired ones again. A path below
// which another field is to be written isn't among them.
func (a *Action) settledPaths() []string {
	return slices.DeleteFunc(slices.Clone(a.explained), func(path string) bool {
		return slices.ContainsFunc(a.Diffs, func(d merge.Difference) bool {
			below, ok := strings.CutPrefix(d.Path, path)
			return ok && (below == "" || below[0] == '.' || below[0] == '[')
		})
	})
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
