package plan

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A Change is what an operator would do to one object: see runner.Change.
type Change struct {
	Parent types.NamespacedName
	Object types.NamespacedName
	Type   resource.Type
	Verb   string
	Fields []FieldChange
}

// A FieldChange is a field of a live object that would change: see
// runner.FieldChange.
type FieldChange struct {
	Path          string
	Live, Desired any
}

// A changeJSON is a Change as JSON, whose names don't change.
type changeJSON struct {
	Parent nameJSON    `json:"parent"`
	Object nameJSON    `json:"object"`
	Type   typeJSON    `json:"type"`
	Verb   string      `json:"verb"`
	Fields []fieldJSON `json:"fields"`
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

// MarshalJSON returns an object with the fields parent, object, type, verb and
// fields, the last a list of path, live and desired, in which null means
// absent: what the subcommand plan prints with -o json.
func (c Change) MarshalJSON() ([]byte, error) {
	out := changeJSON{
		Parent: nameJSON(c.Parent), Object: nameJSON(c.Object),
		Type: typeJSON(c.Type), Verb: c.Verb, Fields: []fieldJSON{},
	}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, fieldJSON(f))
	}
	return json.Marshal(out)
}
