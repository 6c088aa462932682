package runner

import (
	"maps"
	"slices"

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
	fields map[string]*applied
	keys   []string   // by which the items of a keyed list are found
	items  []*applied // of a list that is compared whole
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
	a := &applied{kind: appliedObject, fields: make(map[string]*applied, len(v))}
	for key, value := range v {
		if value == nil || part.excludes(key) || slices.Contains(except, key) {
			continue
		}
		childPart, childSchema := part.child(schema, key)
		a.fields[key] = r.record(value, childSchema, childPart, depth+1)
	}
	return a
}

func (r *appliedRecorder) list(v []any, schema *listkeys.Node, depth int) *applied {
	if len(v) == 0 {
		return &applied{kind: appliedKeyed}
	}
	form, key := listFormOf(v, schema)
	switch form {
	case listSet:
		a := &applied{kind: appliedSet, fields: make(map[string]*applied, len(v))}
		for _, element := range v {
			if element != nil {
				a.fields[string(appendValueText(nil, nullFree(element)))] = r.value
			}
		}
		return a
	case listKeyed:
		a := &applied{kind: appliedKeyed, keys: key.names, fields: make(map[string]*applied, len(v))}
		for _, item := range v {
			object, _ := item.(map[string]any)
			text := string(key.appendText(nil, item))
			a.fields[text] = a.fields[text].union(r.object(object, itemSchema(schema), partOther, key.names, depth+1))
		}
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
	both := &applied{kind: appliedObject, fields: maps.Clone(a.fields)}
	for key, child := range b.fields {
		both.fields[key] = a.fields[key].union(child)
	}
	return both
}

// owns says whether everything here is ours.
func (a *applied) owns() bool { return a != nil && a.kind == appliedWhole }

// objectFields returns what was set in an object, none in anything else.
func (a *applied) objectFields() map[string]*applied {
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
	return a.objectFields()[name]
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
		return a.fields[string(keyOf(a.keys, schema).appendText(scratch[:0], item))]
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
		return a.fields[string(appendValueText(scratch[:0], item))] != nil
	}
	return true
}
