package merge

import "github.com/roperator/roperator/internal/listkeys"

// A place is what is known about one spot in an object, next to the live and the
// desired value there.
type place struct {
	schema *listkeys.Node // nil: unknown
	former *FieldSet      // what an earlier desired object had set here; nil: nothing
	ignore ignoredPaths   // relative to this place
	field  string         // the name of the field; "" for items of lists
	part   objectPart
	// inWhole is true within lists that are compared whole.
	inWhole bool
	// inUnion is true for an item of a list of unions.
	inUnion bool
	// formerKnown is true if an earlier desired object is known. A nil former
	// then means that it had set nothing here.
	formerKnown bool
	// uncertain is true below a path that former owns whole: an earlier desired
	// object may have set this field, or the API server by default.
	uncertain bool
	// owned is true in what the schema says is atomic: the value is owned whole.
	owned bool
	// partial is as in Comparison.
	partial bool
}

// An objectPart names the parts that all Kubernetes objects have.
type objectPart uint8

const (
	partOther         objectPart = iota // any field below the root but metadata
	partRoot                            // the object itself
	partMetadata                        // its metadata
	partMetadataField                   // a field of its metadata
)

// objectMeta is the schema of metadata. The schemas of CRDs lack it.
//
//nolint:gochecknoglobals // immutable; built once, so that comparing doesn't allocate
var objectMeta = &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{
	"labels":      {Kind: listkeys.Map},
	"annotations": {Kind: listkeys.Map},
	"finalizers":  {Kind: listkeys.List, Set: true},
	"ownerReferences": {Kind: listkeys.List, Keys: []string{"uid"}, AnyOrder: true, Elem: &listkeys.Node{
		Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{
			"apiVersion": {}, "kind": {}, "name": {}, "uid": {}, "controller": {}, "blockOwnerDeletion": {},
		},
	}},
}}

// excludes says whether a key of an object is neither compared nor changed, since
// the API server sets the field or it identifies the object.
func (p objectPart) excludes(key string) bool {
	switch p {
	case partRoot:
		return key == "apiVersion" || key == "kind" || key == "status"
	case partMetadata:
		switch key {
		case "name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp",
			"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink":
			return true
		}
	}
	return false
}

// child returns the part and the schema of the value of a key. schema is that of
// the object.
func (p objectPart) child(schema *listkeys.Node, key string) (objectPart, *listkeys.Node) {
	switch {
	case p == partRoot && key == "metadata":
		return partMetadata, objectMeta
	case p == partMetadata:
		return partMetadataField, schema.Field(key)
	}
	return partOther, schema.Field(key)
}

// child returns the place of the value of a key.
func (p place) child(key string) place {
	below := place{field: key, ignore: p.ignore.field(key), inWhole: p.inWhole, formerKnown: p.formerKnown, owned: p.owned, partial: p.partial}
	below.part, below.schema = p.part.child(p.schema, key)
	if below.part != partMetadata || !p.former.ownsWhole() {
		below.former = p.former.field(key)
	}
	below.uncertain = p.uncertain || p.former.ownsWhole() && (p.schema == nil || p.schema.Kind != listkeys.Map)
	return below
}

// item returns the place of an item of a list. index is that of the desired item,
// or -1 for an item that only the live list has.
func (p place) item(item any, index int) place {
	return place{
		schema:      itemSchema(p.schema),
		former:      p.former.item(item, index, p.schema),
		ignore:      p.ignoredOf(item, index),
		inWhole:     p.inWhole,
		inUnion:     p.schema != nil && p.schema.RetainKeys,
		formerKnown: p.formerKnown,
		uncertain:   p.uncertain || p.former.ownsWhole(),
		owned:       p.owned,
		partial:     p.partial,
	}
}

// ignoredOf returns the ignored paths of an item, relative to the item. index is
// as in item.
func (p place) ignoredOf(item any, index int) ignoredPaths {
	if len(p.ignore) == 0 {
		return nil
	}
	return p.ignore.item(keyOf(nil, p.schema), item, index)
}

// itemSchema returns the schema of a list's items, nil if it is unknown.
func itemSchema(list *listkeys.Node) *listkeys.Node {
	if list == nil || list.Kind != listkeys.List {
		return nil
	}
	return list.Elem
}

// replacesOnChange says whether an object that differs at its own level loses the
// keys that desired lacks. Unions do, since a new type makes the fields of the old
// type invalid. Objects within lists that are compared whole do as well: a changed
// item is another item, and the other keys of the old item may be defaults that
// followed from its old values.
func (p place) replacesOnChange() bool {
	return p.part == partOther && (p.inWhole || p.inUnion || isUnion(p.schema))
}

// isUnion says whether the fields of a struct exclude each other. Most schemas
// don't say so. Unions without that are known by their fields: variables and their
// sources, probes and lifecycle handlers, update strategies, security profiles,
// and backends of an Ingress. The API server refuses a mix of two alternatives.
func isUnion(s *listkeys.Node) bool {
	if s == nil {
		return false
	}
	has := func(a, b string) bool { return s.Fields[a] != nil && s.Fields[b] != nil }
	return s.RetainKeys || has("value", "valueFrom") || has("fieldRef", "configMapKeyRef") || has("exec", "httpGet") ||
		has("type", "rollingUpdate") || has("type", "localhostProfile") || len(s.Fields) == 2 && has("service", "resource")
}

// goesWhole says whether an object is removed as a whole, once an earlier desired
// object had set some of its fields and desired lacks the object. Structs are: the
// rest of their fields are defaults. So is what the schema says is atomic. Other maps
// are not, since others may have keys of their own in a map. Nor is a struct in which
// the earlier object had set nothing: whatever is in it was set by others.
func (p place) goesWhole() bool {
	switch {
	case p.schema == nil:
		return false
	case p.schema.Atomic:
		return true
	}
	return p.schema.Kind == listkeys.Struct && len(p.schema.Fields) > 0 && !p.former.isHollow()
}
