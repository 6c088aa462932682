package merge

import (
	"reflect"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// maxDepth is the number of steps to the deepest object or list that a FieldSet
// records. Objects and lists that are nested more deeply are owned whole.
const maxDepth = 200

// A FieldSet is the set of paths that a desired object sets, as a tree. It holds no
// values but the keys of list items and the elements of sets. Where the paths below
// a field are too many to be recorded, the field is owned whole: the set then holds
// every path below it.
//
// A FieldSet is immutable and safe for concurrent use. nil is the empty set.
type FieldSet struct {
	kind   shape
	fields members     // of an object, a keyed list or a set
	keys   []string    // of a keyed list: the names of its items' keys
	order  []int       // of a keyed list: the indexes of fields in the order of the items; nil: unknown, or without meaning
	items  []*FieldSet // of a list that is compared whole: one per item
}

// members are sorted by name. Each name is there once.
type members []member

// A member is one branch of the tree. Its name is the key of an object, the text of
// the key of a list item, or the text of an element of a set.
type member struct {
	name  string
	value *FieldSet
}

// get returns the set below a name, nil if there is none.
func (m members) get(name string) *FieldSet {
	if i, ok := slices.BinarySearchFunc(m, name, member.compare); ok {
		return m[i].value
	}
	return nil
}

// compare orders a member and a name.
func (m member) compare(name string) int { return strings.Compare(m.name, name) }

// inOrder sorts members in place, and joins those with the same name.
func (m members) inOrder() members {
	slices.SortStableFunc(m, func(a, b member) int { return a.compare(b.name) })
	out := m[:0]
	for _, field := range m {
		if last := len(out) - 1; last >= 0 && out[last].name == field.name {
			out[last].value = out[last].value.union(field.value)
		} else {
			out = append(out, field)
		}
	}
	return out
}

// A shape says what a FieldSet has at a path.
type shape uint8

const (
	// shapeValue is a scalar, or a list that is compared whole and holds only
	// scalars.
	shapeValue shape = iota
	// shapeWhole is a value of any type that is owned whole.
	shapeWhole
	// shapeObject is an object. The set holds its fields.
	shapeObject
	// shapeKeyed is a keyed list. The set holds its items, by the text of their
	// keys. The keys' own fields aren't recorded again. An empty list has this
	// shape as well.
	shapeKeyed
	// shapeSet is a set. The FieldSet holds its elements.
	shapeSet
	// shapeItems is a list that is compared whole and has objects or lists in it.
	shapeItems
)

// Record returns the set of the paths that a desired object sets. The set lacks fields
// that every Comparison leaves out, such as status. It lacks fields that are null, too: a
// field that becomes null is removed like one that desired lacks. If the schema is
// pending, items of lists are recorded by all that may turn out to be their keys.
func (c *Comparison) Record(desired map[string]any) *FieldSet {
	r := recorder{value: &FieldSet{}, whole: &FieldSet{kind: shapeWhole}, pending: c.Pending}
	return r.object(desired, c.Schema, partRoot, nil, 0)
}

// A recorder makes the tree of a FieldSet. Leaves of the same shape share one
// FieldSet.
type recorder struct {
	value, whole *FieldSet
	pending      bool // see Comparison.Pending
}

// record returns the set of the paths in a value.
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

// object returns the set of the paths in an object, without the keys in except.
func (r *recorder) object(v map[string]any, schema *listkeys.Node, part objectPart, except []string, depth int) *FieldSet {
	if depth > maxDepth {
		return r.whole
	}
	set := &FieldSet{kind: shapeObject, fields: make(members, 0, len(v))}
	for key, value := range v {
		if value == nil || part.excludes(key) || slices.Contains(except, key) {
			continue
		}
		childPart, childSchema := part.child(schema, key)
		set.fields = append(set.fields, member{key, r.record(value, childSchema, childPart, depth+1)})
	}
	set.fields = set.fields.inOrder()
	return set
}

// list returns the set of the paths in a list.
func (r *recorder) list(v []any, schema *listkeys.Node, depth int) *FieldSet {
	if len(v) == 0 {
		return &FieldSet{kind: shapeKeyed}
	}
	form, key := listFormOf(v, schema)
	if r.pending && schema == nil {
		form, key = pendingForm(v)
	}
	switch form {
	case listSet:
		return r.setList(v)
	case listKeyed:
		return r.keyedList(v, key, schema, depth)
	}
	return r.wholeList(v, schema, depth)
}

// setList returns the set of the elements of a set.
func (r *recorder) setList(v []any) *FieldSet {
	set := &FieldSet{kind: shapeSet, fields: make(members, 0, len(v))}
	for _, element := range v {
		if element != nil {
			set.fields = append(set.fields, member{string(appendValueText(nil, jsonvalue.NullFree(element))), r.value})
		}
	}
	set.fields = set.fields.inOrder()
	return set
}

// keyedList returns the set of the paths in a keyed list.
func (r *recorder) keyedList(v []any, key listKey, schema *listkeys.Node, depth int) *FieldSet {
	set := &FieldSet{kind: shapeKeyed, keys: key.names, fields: make(members, 0, len(v))}
	for _, item := range v {
		object, _ := item.(map[string]any)
		below := r.object(object, itemSchema(schema), partOther, key.names, depth+1)
		set.fields = append(set.fields, member{string(key.appendText(nil, item)), below})
	}
	if schema != nil && schema.AnyOrder {
		set.fields = set.fields.inOrder()
	} else {
		set.fields, set.order = set.fields.ordered()
	}
	return set
}

// wholeList returns the set of the paths in a list that is compared whole.
func (r *recorder) wholeList(v []any, schema *listkeys.Node, depth int) *FieldSet {
	set := &FieldSet{kind: shapeItems, items: make([]*FieldSet, len(v))}
	nested := false
	for i, item := range v {
		set.items[i] = r.record(item, itemSchema(schema), partOther, depth+1)
		nested = nested || set.items[i] != r.value
	}
	if !nested {
		return r.value
	}
	return set
}

// union returns the paths in either of two sets of items with the same key.
func (s *FieldSet) union(other *FieldSet) *FieldSet {
	if s == nil || s == other {
		return other
	}
	if s.kind != shapeObject || other.kind != shapeObject {
		return other
	}
	return &FieldSet{kind: shapeObject, fields: slices.Concat(s.fields, other.fields).inOrder()}
}

// EqualExcept says whether two sets are alike but for one field and what is below it.
func (s *FieldSet) EqualExcept(other *FieldSet, field string) bool {
	is := func(m member) bool { return m.name == field }
	a, b := slices.Clone(s.objectFields()), slices.Clone(other.objectFields())
	return slices.EqualFunc(slices.DeleteFunc(a, is), slices.DeleteFunc(b, is), func(a, b member) bool { return reflect.DeepEqual(a, b) })
}

// ownsWhole says whether the value is owned whole.
func (s *FieldSet) ownsWhole() bool { return s != nil && s.kind == shapeWhole }

// objectFields returns the fields of an object, none for any other shape.
func (s *FieldSet) objectFields() members {
	if s == nil || s.kind != shapeObject {
		return nil
	}
	return s.fields
}

// field returns the set below a field of an object, nil if it lacks the field.
func (s *FieldSet) field(name string) *FieldSet {
	if s.ownsWhole() {
		return s
	}
	return s.objectFields().get(name)
}

// item returns the set below an item of a list, nil if it lacks the item. index is
// that of the desired item, or -1 for an item that only the live list has. schema
// is that of the list.
func (s *FieldSet) item(item any, index int, schema *listkeys.Node) *FieldSet {
	switch {
	case s == nil:
		return nil
	case s.kind == shapeWhole:
		return s
	case s.kind == shapeItems && 0 <= index && index < len(s.items):
		return s.items[index]
	case s.kind == shapeKeyed && len(s.fields) > 0:
		var scratch [64]byte
		return s.fields.get(string(keyOf(s.keys, schema).appendText(scratch[:0], item)))
	}
	return nil
}

// itemWithKeys returns the set below an item of a keyed list, with the keys' own
// fields. It returns nil if the set isn't that of a keyed list, or lacks the item.
func (s *FieldSet) itemWithKeys(item any, schema *listkeys.Node) *FieldSet {
	if s == nil || s.kind != shapeKeyed {
		return nil
	}
	below := s.item(item, -1, schema)
	if below == nil || below.kind != shapeObject {
		return below
	}
	fields := slices.Clone(below.fields)
	for _, key := range s.keys {
		fields = append(fields, member{key, &FieldSet{}})
	}
	return &FieldSet{kind: shapeObject, fields: fields.inOrder()}
}

// isHollow says whether the set is that of an object with nothing in it but hollow
// objects.
func (s *FieldSet) isHollow() bool {
	return s != nil && s.kind == shapeObject &&
		!slices.ContainsFunc(s.fields, func(m member) bool { return !m.value.isHollow() })
}

// hasItem says whether the set holds an item of a live list. If the list was
// compared whole, the set holds all items, unless the schema has come to tell
// items apart since.
func (s *FieldSet) hasItem(item any, schema *listkeys.Node) bool {
	var scratch [64]byte
	switch {
	case s == nil || s.kind == shapeObject:
		return false
	case s.kind == shapeKeyed:
		return s.item(item, -1, schema) != nil
	case s.kind == shapeSet:
		return s.fields.get(string(appendValueText(scratch[:0], item))) != nil
	}
	return s.kind == shapeWhole || !tellsItemsApart(schema)
}
