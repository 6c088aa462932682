package runner

import (
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/listkeys"
)

// maxAppliedDepth is how deep paths are recorded. What lies deeper is owned
// whole.
const maxAppliedDepth = 200

// An applied is the set of paths that a desired state has set, as a tree.
// Without values: only the keys of list items are kept, and the elements of
// sets. It is immutable, and its methods may be called on nil, which is the
// empty set.
type applied struct {
	kind appliedKind
	// fields are the keys of an object, the items of a keyed list by the text
	// of their key, or the elements of a set by their text.
	fields appliedFields
	keys   []string   // by which the items of a keyed list are found
	items  []*applied // of a list that is compared whole
}

// appliedFields are in the order of their names, of which there is each once.
type appliedFields []appliedField

type appliedField struct {
	name  string
	value *applied
}

// get returns the field with the name, nil if there is none.
func (f appliedFields) get(name string) *applied {
	if i, ok := slices.BinarySearchFunc(f, name, appliedField.compare); ok {
		return f[i].value
	}
	return nil
}

func (f appliedField) compare(name string) int { return strings.Compare(f.name, name) }

// inOrder sorts fields. What several with the same name have set is set.
func (f appliedFields) inOrder() appliedFields {
	slices.SortStableFunc(f, func(a, b appliedField) int { return a.compare(b.name) })
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

// An appliedKind is what has been set at a path.
type appliedKind uint8

const (
	// appliedValue is a scalar, or a list compared whole that holds only such.
	appliedValue appliedKind = iota
	// appliedWhole stands for more paths than could be recorded: everything
	// below belongs to us.
	appliedWhole
	// appliedObject is an object, of which the fields belong to us.
	appliedObject
	// appliedKeyed is a keyed list, of which the items in fields belong to us.
	// Their keys themselves aren't recorded again. An empty list is one too.
	appliedKeyed
	// appliedSet is a set, of which the elements in fields belong to us.
	appliedSet
	// appliedItems is a list compared whole with objects or lists in it.
	appliedItems
)

// newApplied returns what a desired object sets. What the comparison doesn't
// look at isn't recorded, and neither is null, which sets nothing: a field that
// becomes null is dropped.
func newApplied(desired map[string]any, schema *listkeys.Node) *applied {
	r := appliedRecorder{value: &applied{}, whole: &applied{kind: appliedWhole}}
	return r.object(desired, schema, partRoot, nil, 0)
}

// An appliedRecorder makes a tree of applied, of which the leaves are shared.
type appliedRecorder struct{ value, whole *applied }

func (r *appliedRecorder) record(v any, schema *listkeys.Node, part objectPart, depth int) *applied {
	switch v := v.(type) {
	case map[string]any:
		return r.object(v, schema, part, nil, depth)
	case []any:
		if depth > maxAppliedDepth {
			return r.whole
		}
		return r.list(v, schema, depth)
	}
	return r.value
}

// object records an object but for the keys in except.
func (r *appliedRecorder) object(v map[string]any, schema *listkeys.Node, part objectPart, except []string, depth int) *applied {
	if depth > maxAppliedDepth {
		return r.whole
	}
	a := &applied{kind: appliedObject, fields: make(appliedFields, 0, len(v))}
	for key, value := range v {
		if value == nil || part.excludes(key) || slices.Contains(except, key) {
			continue
		}
		childPart, childSchema := part.child(schema, key)
		a.fields = append(a.fields, appliedField{key, r.record(value, childSchema, childPart, depth+1)})
	}
	a.fields = a.fields.inOrder()
	return a
}

func (r *appliedRecorder) list(v []any, schema *listkeys.Node, depth int) *applied {
	if len(v) == 0 {
		return &applied{kind: appliedKeyed}
	}
	form, key := listFormOf(v, schema)
	switch form {
	case listSet:
		a := &applied{kind: appliedSet, fields: make(appliedFields, 0, len(v))}
		for _, element := range v {
			if element != nil {
				a.fields = append(a.fields, appliedField{string(appendValueText(nil, nullFree(element))), r.value})
			}
		}
		a.fields = a.fields.inOrder()
		return a
	case listKeyed:
		a := &applied{kind: appliedKeyed, keys: key.names, fields: make(appliedFields, 0, len(v))}
		for _, item := range v {
			object, _ := item.(map[string]any)
			below := r.object(object, itemSchema(schema), partOther, key.names, depth+1)
			a.fields = append(a.fields, appliedField{string(key.appendText(nil, item)), below})
		}
		a.fields = a.fields.inOrder()
		return a
	}
	a := &applied{kind: appliedItems, items: make([]*applied, len(v))}
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
func (a *applied) union(b *applied) *applied {
	if a == nil || a == b {
		return b
	}
	if a.kind != appliedObject || b.kind != appliedObject {
		return b
	}
	return &applied{kind: appliedObject, fields: slices.Concat(a.fields, b.fields).inOrder()}
}

// owns says whether everything here is ours.
func (a *applied) owns() bool { return a != nil && a.kind == appliedWhole }

// objectFields returns what was set in an object, none in anything else.
func (a *applied) objectFields() appliedFields {
	if a == nil || a.kind != appliedObject {
		return nil
	}
	return a.fields
}

// field returns what was set in a field of an object, nil if nothing was.
func (a *applied) field(name string) *applied {
	if a.owns() {
		return a
	}
	return a.objectFields().get(name)
}

// item returns what was set in an item of a list, nil if nothing was. A
// negative index is that of no former item.
func (a *applied) item(item any, index int, schema *listkeys.Node) *applied {
	switch {
	case a == nil:
		return nil
	case a.kind == appliedWhole:
		return a
	case a.kind == appliedItems && 0 <= index && index < len(a.items):
		return a.items[index]
	case a.kind == appliedKeyed && len(a.fields) > 0:
		var scratch [64]byte
		return a.fields.get(string(keyOf(a.keys, schema).appendText(scratch[:0], item)))
	}
	return nil
}

// hasItem says whether an item of a live list was set. In lists that were
// compared whole, all were.
func (a *applied) hasItem(item any, schema *listkeys.Node) bool {
	var scratch [64]byte
	switch {
	case a == nil || a.kind == appliedObject:
		return false
	case a.kind == appliedKeyed:
		return a.item(item, -1, schema) != nil
	case a.kind == appliedSet:
		return a.fields.get(string(appendValueText(scratch[:0], item))) != nil
	}
	return true
}
