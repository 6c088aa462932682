package merge

import (
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// allFields is the set of all fields of a value that is owned whole.
//
//nolint:gochecknoglobals // immutable; built once, so that comparing doesn't allocate
var allFields = &FieldSet{kind: shapeWhole}

// claimed returns the place of a desired value. What the schema says is atomic has
// one owner, which is whoever desires it: what desired lacks there isn't desired.
// It may be a default of the API server, though, which will come back.
func (p place) claimed() place {
	if p.schema != nil && p.schema.Atomic && !p.partial {
		p.former, p.owned, p.uncertain = allFields, true, true
	}
	return p
}

// An extent tells package jsonvalue which objects are atomic by their schema.
type extent struct{ schema *listkeys.Node }

// extent returns the extent of whole objects.
func (c *Comparison) extent() jsonvalue.Extent {
	if c.Partial {
		return nil
	}
	return extentOf(c.Schema)
}

// extentOf returns the extent of a value with this schema, nil if it is unknown.
func extentOf(schema *listkeys.Node) jsonvalue.Extent {
	if schema == nil {
		return nil
	}
	return extent{schema}
}

// Member implements jsonvalue.Extent.
func (e extent) Member(name string) jsonvalue.Extent { return extentOf(e.schema.Field(name)) }

// Whole implements jsonvalue.Extent.
func (e extent) Whole() bool { return e.schema.Atomic }
