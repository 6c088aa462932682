package merge

import (
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// Restrict returns what a desired object says at the paths that an earlier one had
// set. If the later one has only added fields and items since, that is the earlier one.
// What no FieldSet records, such as the name, stays. The result shares parts with
// desired.
func (c *Comparison) Restrict(desired map[string]any, former *FieldSet) map[string]any {
	clean, _ := jsonvalue.NullFree(desired).(map[string]any)
	return former.restrictObject(clean, partRoot, c.Schema, nil)
}

// restrictObject restricts an object. The keys stay, too.
func (s *FieldSet) restrictObject(object map[string]any, part objectPart, schema *listkeys.Node, keys []string) map[string]any {
	out := map[string]any{}
	for name, value := range object {
		if part.excludes(name) || slices.Contains(keys, name) {
			out[name] = value
		} else if below := s.field(name); below != nil {
			childPart, childSchema := part.child(schema, name)
			out[name] = below.restrict(value, childPart, childSchema)
		}
	}
	return out
}

// restrict restricts a value. A value of another shape than the set stays as it is.
func (s *FieldSet) restrict(value any, part objectPart, schema *listkeys.Node) any {
	switch v := value.(type) {
	case map[string]any:
		if s.kind == shapeObject {
			return s.restrictObject(v, part, schema, nil)
		}
	case []any:
		return s.restrictList(v, schema)
	}
	return value
}

func (s *FieldSet) restrictList(list []any, schema *listkeys.Node) []any {
	if s.kind == shapeValue || s.kind == shapeWhole || s.kind == shapeItems && len(s.items) != len(list) {
		return list
	}
	out := []any{}
	for i, item := range list {
		object, isObject := item.(map[string]any)
		below := s.item(item, i, schema)
		switch {
		case s.kind == shapeKeyed && below != nil && below.kind == shapeObject && isObject:
			out = append(out, below.restrictObject(object, partOther, itemSchema(schema), s.keys))
		case s.kind == shapeItems:
			out = append(out, below.restrict(item, partOther, itemSchema(schema)))
		case s.hasItem(item, schema):
			out = append(out, item)
		}
	}
	return out
}
