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

const (
	VerbCreate   Verb = "create"
	VerbUpdate   Verb = "update"   // replace it under its resourceVersion
	VerbApply    Verb = "apply"    // server-side apply
	VerbRecreate Verb = "recreate" // delete it now, and create it once it is gone
	VerbMark     Verb = "mark"     // it satisfies the desired state, and only its mark is old
	VerbVerify   Verb = "verify"   // find out by a dry run whether it really differs
	VerbDelete   Verb = "delete"   // it is no longer desired
	VerbNone     Verb = ""         // it was compared, and is as desired
)

// An Action is one step of a pass: what is to be done with one child, and why.
// It is immutable. What is found out on the way leads to another action: see
// next.
type Action struct {
	Verb Verb
	Kind *catalog.Kind
	Ref  object.Ref
	Live *resource.Resource // nil: the child doesn't exist
	Want *Desired           // nil for a delete

	Diffs     []merge.Difference // why the child is to be written
	former    *merge.FieldSet    // what an earlier desired state had set; nil if the desired state is the same
	explained []string           // the paths of differences that the server made when it accepted the desired state
	Unknown   bool               // nothing is remembered of the child
	Restores  bool               // the desired state is the one that was accepted before: somebody else has changed the child
	Owned     bool               // what an apply is to remove is the operator's own by managedFields

	decoded map[string]any // live as JSON values, if the comparison had to decode it
}

// LiveObject returns the live object as JSON values, to be read only.
func (a *Action) LiveObject() map[string]any {
	if a.decoded != nil {
		return a.decoded
	}
	return a.Live.Unstructured().Object
}

// settledPaths returns the paths at which a write keeps the live values, since
// the server would make the same of the desired ones again. A path below which
// something differs isn't among them.
func (a *Action) settledPaths() []string {
	return slices.DeleteFunc(slices.Clone(a.explained), func(path string) bool {
		return slices.ContainsFunc(a.Diffs, func(d merge.Difference) bool {
			below, ok := strings.CutPrefix(d.Path, path)
			return ok && (below == "" || below[0] == '.' || below[0] == '[')
		})
	})
}

// writeVerb returns how a child of this type is changed where it differs.
func writeVerb(k *catalog.Kind) Verb {
	switch k.Child.Strategy {
	case config.Recreate:
		return VerbRecreate
	case config.Apply:
		return VerbApply
	}
	return VerbUpdate
}

// SplitDeletes returns the deletes of types that delete before they write
// (config.Child.DeleteFirst), and all others.
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
