package apischema

import (
	"bytes"
	_ "embed" // for the table
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// tableJSON has a line for each model.
//
//go:embed zz_generated.json
var tableJSON []byte

// A Table says what the API server of a version of Kubernetes demands of its kinds beyond
// what their Go types tell.
type Table struct {
	Kubernetes string           `json:"kubernetes"` // the version, such as v1.36.3
	Kinds      []string         `json:"kinds"`      // resource.Type.String of each
	Models     map[string]Model `json:"models"`     // by their names in OpenAPI
}

// A Model is what is demanded of the fields of a schema of OpenAPI, by their names.
type Model map[string]Demand

// A Demand is what the API server demands of a field wherever its schema is used, but within
// the fields that are excepted: there it isn't known to. These are as FieldName says them.
type Demand struct {
	Required       bool     `json:"required,omitempty"` // it may be neither left out nor empty
	RequiredExcept []string `json:"requiredExcept,omitempty"`
	Enum           []string `json:"enum,omitempty"` // what it, or each of its items, may be unless it is empty
	EnumExcept     []string `json:"enumExcept,omitempty"`
}

// FieldName names a field of a schema.
func FieldName(model, field string) string { return model + "." + field }

// readTable returns a table that Encode has written.
func readTable(text []byte) (*Table, error) {
	var out Table
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return &out, nil
}

// Encode returns the table as text, the same for equal tables.
func (t Table) Encode() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"kubernetes\":%q,\n\"kinds\":[", t.Kubernetes)
	for i, kind := range t.Kinds {
		fmt.Fprintf(&out, "%s\n%q", comma(i), kind)
	}
	out.WriteString("\n],\n\"models\":{")
	for i, name := range slices.Sorted(maps.Keys(t.Models)) {
		text, err := json.Marshal(t.Models[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s\n%q:%s", comma(i), name, text)
	}
	out.WriteString("\n}}\n")
	return out.Bytes(), nil
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
