package plan

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
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
// what they would do with it, in which one succeeds, and what else the others leave then. These are the deletions that a
// write that is refused holds back, and what is to be in a Namespace that becomes another's. Each parent is planned as
// if it were alone.
func DoubtRivals(changes []Change) {
	rivals := rivalsIn(changes)
	doubts := map[types.NamespacedName]doubt{} // by parent
	for i, c := range changes {
		if _, ok := rivals[childOf(c)]; ok && c.Verb != string(VerbDelete) {
			changes[i].Unsure = true
			if doubts[c.Parent] == nil {
				doubts[c.Parent] = doubt{}
			}
			doubts[c.Parent].add(c)
		}
	}
	for i, c := range changes {
		changes[i].Unsure = c.Unsure || doubts[c.Parent].covers(c)
	}
}

// A changedChild is what a Change is about.
type changedChild struct {
	of   resource.Type
	name types.NamespacedName
}

func childOf(c Change) changedChild { return changedChild{c.Type, c.Object} }

// rivalsIn returns the objects that several parents would make their child.
func rivalsIn(changes []Change) map[changedChild]struct{} {
	parents := map[changedChild]types.NamespacedName{} // the last one that was seen
	rivals := map[changedChild]struct{}{}
	for _, c := range changes {
		if c.Verb == string(VerbDelete) {
			continue
		}
		if other, ok := parents[childOf(c)]; ok && other != c.Parent {
			rivals[childOf(c)] = struct{}{}
		}
		parents[childOf(c)] = c.Parent
	}
	return rivals
}

// A doubt has the namespaces in which a parent may not get a child that others want, too. "" stands for the children
// without a namespace. The value says of a namespace that it is such a child itself.
type doubt map[string]bool

func (d doubt) add(c Change) {
	if _, ok := d[c.Object.Namespace]; !ok {
		d[c.Object.Namespace] = false
	}
	if c.Type == k8s.Namespace {
		d[c.Object.Name] = true
	}
}

// covers says whether another change for the parent depends on what becomes of those children.
func (d doubt) covers(c Change) bool {
	if c.Verb != string(VerbDelete) {
		return d[c.Object.Namespace]
	}
	_, here := d[c.Object.Namespace]
	_, all := d[""]
	return here || all || c.Object.Namespace == "" && len(d) > 0
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
