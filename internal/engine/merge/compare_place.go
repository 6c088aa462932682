package merge

import "github.com/roperator/roperator/internal/listkeys"

// A place is what is known about one spot in an object, next to its values.
type place struct {
	schema *listkeys.Node // nil: unknown
	former *FieldSet      // what an earlier desired state had set here; nil: nothing
	ignore ignoring       // what is ignored from here
	field  string         // the name of the field, "" for items of lists
	part   objectPart
	// inWhole is true within lists that are compared whole: nobody else has a
	// say there.
	inWhole bool
	inUnion bool // an item of a list of unions
	hadMark bool // former is known, also where it is nil
	// uncertain is true if former doesn't say that this was set, but owns what
	// it is in, and it may be a default.
	uncertain bool
}

// An objectPart tells apart the places that are the same in all objects.
type objectPart uint8

const (
	partOther objectPart = iota
	partRoot
	partMetadata
	partMetadataField
)

// objectMeta is the schema of metadata, which CRDs don't have.
//
//nolint:gochecknoglobals // immutable; built once, so that comparing doesn't allocate
var objectMeta = &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{
	"labels":      {Kind: listkeys.Map},
	"annotations": {Kind: listkeys.Map},
	"finalizers":  {Kind: listkeys.List, Set: true},
	"ownerReferences": {Kind: listkeys.List, Keys: []string{"uid"}, Elem: &listkeys.Node{
		Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{
			"apiVersion": {}, "kind": {}, "name": {}, "uid": {}, "controller": {}, "blockOwnerDeletion": {},
		},
	}},
}}

// excludes says whether a key isn't the handler's business.
func (p place) excludes(key string) bool { return p.part.excludes(key) }

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

// child returns the part and the schema of a key of an object.
func (p objectPart) child(schema *listkeys.Node, key string) (objectPart, *listkeys.Node) {
	switch {
	case p == partRoot && key == "metadata":
		return partMetadata, objectMeta
	case p == partMetadata:
		return partMetadataField, schema.Field(key)
	}
	return partOther, schema.Field(key)
}

// child is the place of a key of an object.
func (p place) child(key string) place {
	below := place{field: key, ignore: p.ignore.field(key), inWhole: p.inWhole, hadMark: p.hadMark}
	below.part, below.schema = p.part.child(p.schema, key)
	if below.part != partMetadata || !p.former.owns() {
		below.former = p.former.field(key)
	}
	below.uncertain = p.uncertain || p.former.owns() && (p.schema == nil || p.schema.Kind != listkeys.Map)
	return below
}

// item is the place of an item of a list; index is -1 for one that is only in
// the live list.
func (p place) item(item any, index int) place {
	return place{
		schema:    itemSchema(p.schema),
		former:    p.former.item(item, index, p.schema),
		ignore:    p.ignoredOf(item, index),
		inWhole:   p.inWhole,
		hadMark:   p.hadMark,
		inUnion:   p.schema != nil && p.schema.RetainKeys,
		uncertain: p.uncertain || p.former.owns(),
	}
}

// ignoredOf returns what is ignored of an item.
func (p place) ignoredOf(item any, index int) ignoring {
	if len(p.ignore) == 0 {
		return nil
	}
	return p.ignore.item(keyOf(nil, p.schema), item, index)
}

func itemSchema(list *listkeys.Node) *listkeys.Node {
	if list == nil || list.Kind != listkeys.List {
		return nil
	}
	return list.Elem
}

// replacesOnChange says whether an object loses what desired lacks as soon as
// it changes at its own level: unions do, where a new type makes the fields of
// the old one invalid, and so does what is in lists that are compared whole,
// where a changed item is another item, however deep the change is: defaults
// may follow from what it said before.
func (p place) replacesOnChange() bool {
	return p.part == partOther && (p.inWhole || p.inUnion || isUnion(p.schema))
}

// isUnion says whether the fields of a struct exclude each other. Most schemas
// don't tell, so these are known by their fields: variables and their sources,
// probes and lifecycle handlers, update strategies, security profiles, and
// backends of an Ingress. The API server refuses what mixes two of a kind.
func isUnion(s *listkeys.Node) bool {
	if s == nil {
		return false
	}
	has := func(a, b string) bool { return s.Fields[a] != nil && s.Fields[b] != nil }
	return s.RetainKeys || has("value", "valueFrom") || has("fieldRef", "configMapKeyRef") || has("exec", "httpGet") ||
		has("type", "rollingUpdate") || has("type", "localhostProfile") || len(s.Fields) == 2 && has("service", "resource")
}

// goesWhole says whether an object of which an earlier desired state had set
// something goes as a whole once it isn't desired any more: what is left of a
// struct are defaults, while others may have keys of their own in a map.
func (p place) goesWhole() bool {
	return p.schema != nil && p.schema.Kind == listkeys.Struct && len(p.schema.Fields) > 0
}

// ordered says whether the order of the items of a keyed list has a meaning:
// initContainers run one after the other, and a variable in env may refer to
// those before it.
func (p place) ordered() bool { return p.field == "initContainers" || p.field == "env" }
