package plan

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// VerbFinalize is the Verb of a Change of a parent whose Finalize would be called. The
// others are those of actions: VerbCreate, VerbUpdate, VerbRecreate and VerbDelete.
const VerbFinalize = "finalize"

// ChangeVerbs returns the verbs that a Change may have, in the order of a summary.
func ChangeVerbs() []string {
	return []string{string(VerbCreate), string(VerbUpdate), string(VerbRecreate), string(VerbDelete), VerbFinalize}
}

// A Change is what an operator would do to one object: a child, or the parent
// itself. runner.Change is its public twin.
type Change struct {
	Parent types.NamespacedName
	Object types.NamespacedName
	Type   resource.Type // of Object
	Verb   string        // create, update, recreate, delete or finalize: see VerbFinalize
	Fields []FieldChange // by path; the values of a Secret are Hidden
	Waits  string        // what has to come first, "waits for Deployment shop/db"; empty: nothing
	Unsure bool          // no dry run could tell what becomes of the change
}

// DoubtRivals marks as unsure what can't be known because several parents would make the same object their child:
// what they would do with it, in which one succeeds, and the deletions in its namespace for the same parents, which a
// write that is refused holds back. Each parent is planned as if it were alone.
func DoubtRivals(changes []Change) {
	type child struct {
		of   resource.Type
		name types.NamespacedName
	}
	type deletions struct {
		parent    types.NamespacedName
		namespace string
	}
	parents := map[child]types.NamespacedName{} // the last one that was seen
	rivals := map[child]struct{}{}
	deletes := string(VerbDelete)
	for _, c := range changes {
		this := child{c.Type, c.Object}
		if c.Verb == deletes {
			continue
		}
		if other, ok := parents[this]; ok && other != c.Parent {
			rivals[this] = struct{}{}
		}
		parents[this] = c.Parent
	}
	held := map[deletions]struct{}{}
	for i, c := range changes {
		if _, ok := rivals[child{c.Type, c.Object}]; ok && c.Verb != deletes {
			changes[i].Unsure = true
			held[deletions{c.Parent, c.Object.Namespace}] = struct{}{}
		}
	}
	for i, c := range changes {
		if _, ok := held[deletions{c.Parent, c.Object.Namespace}]; ok && c.Verb == deletes {
			changes[i].Unsure = true
		}
	}
}

// A FieldChange is one field of an object that would change. runner.FieldChange is
// its public twin.
type FieldChange struct {
	Path          string // empty: the whole object
	Live, Desired any    // JSON values; nil: the field is absent
}

// A changeJSON is a Change as JSON. Its names are part of the public format.
type changeJSON struct {
	Parent nameJSON    `json:"parent"`
	Object nameJSON    `json:"object"`
	Type   typeJSON    `json:"type"`
	Verb   string      `json:"verb"`
	Fields []fieldJSON `json:"fields"`
	Waits  string      `json:"waits,omitempty"`
	Unsure bool        `json:"unsure,omitempty"`
}

type nameJSON struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

type typeJSON struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type fieldJSON struct {
	Path    string `json:"path"`
	Live    any    `json:"live"`
	Desired any    `json:"desired"`
}

// MarshalJSON returns what the subcommand plan prints with -o json: an object with
// parent, object, type, verb and fields, waits if something has to come first, and unsure if
// that is true. fields is a list of objects with path, live and desired, in which null stands
// for an absent field.
func (c Change) MarshalJSON() ([]byte, error) {
	out := changeJSON{
		Parent: nameJSON(c.Parent), Object: nameJSON(c.Object),
		Type: typeJSON(c.Type), Verb: c.Verb, Fields: []fieldJSON{}, Waits: c.Waits, Unsure: c.Unsure,
	}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, fieldJSON(f))
	}
	return json.Marshal(out)
}
