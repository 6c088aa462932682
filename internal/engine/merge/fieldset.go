package merge

import (
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// maxAppliedDepth is how deep paths are recorded. What lies deeper is owned
// whole.
const maxDepth = 200

// An FieldSet is the set of paths that a desired state has set, as a tree.
// Without values: only the keys of list items are kept, and the elements of
// sets. It is immutable, and its methods may be called on nil, which is the
// empty set.
type FieldSet struct {
	kind shape
	// fields are the keys of an object, the items of a keyed list by the text
	// of their key, or the elements of a set by their text.
	fields members
	keys   []string    // by which the items of a keyed list are found
	items  []*FieldSet // of a list that is compared whole
}

// members are in the order of their names, of which there is each once.
type members []member

type member struct {
	name  string
	value *FieldSet
}

// get returns the field with the name, nil if there is none.
func (f members) get(name string) *FieldSet {
	if i, ok := slices.BinarySearchFunc(f, name, member.compare); ok {
		return f[i].value
	}
	return nil
}

func (f member) compare(name string) int { return strings.Compare(f.name, name) }

// inOrder sorts fields. What several with the same name have set is set.
func (f members) inOrder() members {
	slices.SortStableFunc(f, func(a, b member) int { return a.compare(b.name) })
	out := f[:0]
	for _, field := range f {
		if last := len(out) - 1; last >= 0 && out[last].name == field.name {
			out[last].value = out[last].value.union(field.value)
		} else {
			out = append(out, field)
		}
	}
	return out
}

// An shape is what has been set at a path.
type shape uint8

const (
	// appliedValue is a scalar, or a list compared whole that holds only such.
	shapeValue shape = iota
	// appliedWhole stands for more paths than could be recorded: everything
	// below belongs to us.
	shapeWhole
	// appliedObject is an object, of which the fields belong to us.
	shapeObject
	// appliedKeyed is a keyed list, of which the items in fields belong to us.
	// Their keys themselves aren't recorded again. An empty list is one too.
	shapeKeyed
	// appliedSet is a set, of which the elements in fields belong to us.
	shapeSet
	// appliedItems is a list compared whole with objects or lists in it.
	shapeItems
)

// NewFieldSet returns what a desired object sets. What the comparison doesn't
// look at isn't recorded, and neither is null, which sets nothing: a field that
// becomes null is dropped.
func NewFieldSet(desired map[string]any, schema *listkeys.Node) *FieldSet {
	r := recorder{value: &FieldSet{}, whole: &FieldSet{kind: shapeWhole}}
	return r.object(desired, schema, partRoot, nil, 0)
}

// An recorder makes a tree of applied, of which the leaves are shared.
type recorder struct{ value, whole *FieldSet }

func (r *recorder) record(v any, schema *listkeys.Node, part objectPart, depth int) *FieldSet {
	switch v := v.(type) {
	case map[string]any:
		return r.object(v, schema, part, nil, depth)
	case []any:
		if depth > maxDepth {
			return r.whole
		}
		return r.list(v, schema, depth)
	}
	return r.value
}

// object records an object but for the keys in except.
func (r *recorder) object(v map[string]any, schema *listkeys.Node, part objectPart, except []string, depth int) *FieldSet {
	if depth > maxDepth {
		return r.whole
	}
	a := &FieldSet{kind: shapeObject, fields: make(members, 0, len(v))}
	for key, value := range v {
		if value == nil || part.excludes(key) || slices.Contains(except, key) {
			continue
		}
		childPart, childSchema := part.child(schema, key)
		a.fields = append(a.fields, member{key, r.record(value, childSchema, childPart, depth+1)})
	}
	a.fields = a.fields.inOrder()
	return a
}

func (r *recorder) list(v []any, schema *listkeys.Node, depth int) *FieldSet {
	if len(v) == 0 {
		return &FieldSet{kind: shapeKeyed}
	}
	form, key := listFormOf(v, schema)
	switch form {
	case listSet:
		a := &FieldSet{kind: shapeSet, fields: make(members, 0, len(v))}
		for _, element := range v {
			if element != nil {
				a.fields = append(a.fields, member{string(appendValueText(nil, jsonvalue.NullFree(element))), r.value})
			}
		}
		a.fields = a.fields.inOrder()
		return a
	case listKeyed:
		a := &FieldSet{kind: shapeKeyed, keys: key.names, fields: make(members, 0, len(v))}
		for _, item := range v {
			object, _ := item.(map[string]any)
			below := r.object(object, itemSchema(schema), partOther, key.names, depth+1)
			a.fields = append(a.fields, member{string(key.appendText(nil, item)), below})
		}
		a.fields = a.fields.inOrder()
		return a
	}
	a := &FieldSet{kind: shapeItems, items: make([]*FieldSet, len(v))}
	nested := false
	for i, item := range v {
		a.items[i] = r.record(item, itemSchema(schema), partOther, depth+1)
		nested = nested || a.items[i] != r.value
	}
	if !nested {
		return r.value
	}
	return a
}

// union returns what is in either set, of two items with the same key.
func (a *FieldSet) union(b *FieldSet) *FieldSet {
	if a == nil || a == b {
		return b
	}
	if a.kind != shapeObject || b.kind != shapeObject {
		return b
	}
	return &FieldSet{kind: shapeObject, fields: slices.Concat(a.fields, b.fields).inOrder()}
}

// owns says whether everything here is ours.
func (a *FieldSet) owns() bool { return a != nil && a.kind == shapeWhole }

// objectFields returns what was set in an object, none in anything else.
func (a *FieldSet) objectFields() members {
	if a == nil || a.kind != shapeObject {
		return nil
	}
	return a.fields
}

// field returns what was set in a field of an object, nil if nothing was.
func (a *FieldSet) field(name string) *FieldSet {
	if a.owns() {
		return a
	}
	return a.objectFields().get(name)
}

// item returns what was set in an item of a list, nil if nothing was. A
// negative index is that of no former item.
func (a *FieldSet) item(item any, index int, schema *listkeys.Node) *FieldSet {
	switch {
	case a == nil:
		return nil
	case a.kind == shapeWhole:
		return a
	case a.kind == shapeItems && 0 <= index && index < len(a.items):
		return a.items[index]
	case a.kind == shapeKeyed && len(a.fields) > 0:
		var scratch [64]byte
		return a.fields.get(string(keyOf(a.keys, schema).appendText(scratch[:0], item)))
	}
	return nil
}

// hasItem says whether an item of a live list was set. In lists that were
// compared whole, all were.
func (a *FieldSet) hasItem(item any, schema *listkeys.Node) bool {
	var scratch [64]byte
	switch {
	case a == nil || a.kind == shapeObject:
		return false
	case a.kind == shapeKeyed:
		return a.item(item, -1, schema) != nil
	case a.kind == shapeSet:
		return a.fields.get(string(appendValueText(scratch[:0], item))) != nil
	}
	return true
}
