package listkeys

import (
	"slices"
	"strings"
)

// quantityRef is how the reference to the schema of a quantity ends.
const quantityRef = "apimachinery.pkg.api.resource.Quantity"

// FromSchema returns the Node of an OpenAPI v3 schema, that of a CRD (without
// references: resolve may be nil) or one of an API server. resolve returns the
// schema that a reference ("#/components/schemas/…") names, nil if there is
// none. It returns nil for a schema that says nothing about its value.
func FromSchema(schema map[string]any, resolve func(ref string) map[string]any) *Node {
	b := Builder{Resolve: resolve, ObjectMeta: objectMeta()}
	return b.Root(schema)
}

// A Builder makes Nodes of the schemas of one document, in which references to
// the same schema become the same Node. It is for one goroutine.
type Builder struct {
	// Resolve is as in FromSchema.
	Resolve func(ref string) map[string]any
	// ObjectMeta is the schema of metadata where an object's own schema says
	// only that it is an object, as in CRDs.
	ObjectMeta *Node

	byRef map[string]*Node // under construction as well
}

// Root returns the Node of an object with apiVersion, kind and metadata.
func (b *Builder) Root(schema map[string]any) *Node {
	n := b.node(schema)
	if n != nil {
		n.Closed = false // apiVersion and kind need not be said
	}
	b.embed(n)
	return n
}

// embed gives an object's metadata its schema.
func (b *Builder) embed(n *Node) {
	if n == nil || n.Kind != Struct || b.ObjectMeta == nil {
		return
	}
	if metadata := n.Fields["metadata"]; metadata == nil || len(metadata.Fields) == 0 {
		n.Fields["metadata"] = b.ObjectMeta
	}
}

func (b *Builder) node(schema map[string]any) *Node {
	if ref, extended := reference(schema); ref != "" {
		n := b.Ref(ref)
		if n == nil || !extended {
			return n
		}
		own := *n // the property adds something to what it refers to
		if atomic, said := atomicity(schema); said {
			own.Atomic = atomic
		}
		own.RetainKeys = own.RetainKeys || strategy(schema, "retainKeys")
		return &own
	}
	n := &Node{}
	if !b.shape(n, schema) {
		return nil
	}
	return n
}

// reference returns the reference that a schema consists of, and whether it
// adds extensions to it.
func reference(schema map[string]any) (ref string, extended bool) {
	ref, _ = schema["$ref"].(string)
	if all, ok := schema["allOf"].([]any); ref == "" && ok && len(all) == 1 {
		one, _ := all[0].(map[string]any)
		ref, _ = one["$ref"].(string)
	}
	_, said := atomicity(schema)
	return ref, said || strategy(schema, "retainKeys")
}

// Ref returns the Node of the schema that a reference names.
func (b *Builder) Ref(ref string) *Node {
	if n, ok := b.byRef[ref]; ok {
		return n
	}
	if strings.HasSuffix(ref, quantityRef) {
		return &Node{Kind: Quantity}
	}
	var schema map[string]any
	if b.Resolve != nil {
		schema = b.Resolve(ref)
	}
	if schema == nil {
		return nil
	}
	n := &Node{Fields: map[string]*Node{}} // so that copies share the fields
	if b.byRef == nil {
		b.byRef = map[string]*Node{}
	}
	b.byRef[ref] = n
	if inner, _ := reference(schema); inner != "" {
		n = b.node(schema)
	} else if !b.shape(n, schema) {
		n = nil
	}
	if n != nil && n.Kind != Struct {
		n.Fields = nil
	}
	b.byRef[ref] = n
	return n
}

// shape fills n in. It returns false if the schema says nothing.
func (b *Builder) shape(n *Node, schema map[string]any) bool {
	n.Atomic, _ = atomicity(schema)
	n.RetainKeys = strategy(schema, "retainKeys")
	switch {
	case isQuantity(schema):
		n.Kind = Quantity
		return true
	case isIntOrString(schema):
		n.Kind = IntOrString
		return true
	}
	kind, _ := schema["type"].(string)
	properties, _ := schema["properties"].(map[string]any)
	items, _ := schema["items"].(map[string]any)
	switch {
	case properties != nil:
		b.object(n, schema, properties)
	case kind == "array" || items != nil:
		b.list(n, schema, items)
	case kind == "object" || schema["additionalProperties"] != nil:
		return b.mapping(n, schema)
	case kind != "":
		n.Kind = Scalar
	default:
		return false
	}
	return true
}

func (b *Builder) object(n *Node, schema, properties map[string]any) {
	n.Kind = Struct
	if n.Fields == nil {
		n.Fields = make(map[string]*Node, len(properties))
	}
	for name, property := range properties {
		if inner, ok := property.(map[string]any); ok {
			n.Fields[name] = b.node(inner)
		}
	}
	noteKnown(n.Fields)
	embedded, _ := schema["x-kubernetes-embedded-resource"].(bool)
	if embedded {
		b.embed(n)
	}
	preserves, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
	n.Closed = b.ObjectMeta != nil && !embedded && !preserves
}

func (b *Builder) mapping(n *Node, schema map[string]any) bool {
	n.Kind = Map
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		n.Elem = b.node(values)
		return true
	}
	return n.Atomic // a bare "object" says nothing about what is in it
}

func (b *Builder) list(n *Node, schema, items map[string]any) {
	n.Kind = List
	n.Elem = b.node(items)
	listType, _ := schema["x-kubernetes-list-type"].(string)
	n.PatchKey, _ = schema["x-kubernetes-patch-merge-key"].(string)
	switch {
	case listType == "map":
		n.Keys = texts(schema["x-kubernetes-list-map-keys"])
	case n.PatchKey != "" && strategy(schema, "merge") && listType != "atomic":
		n.Keys = []string{n.PatchKey}
	case listType == "set":
		n.Set = true
	case listType == "" && strategy(schema, "merge") && n.Elem != nil && n.Elem.Kind <= IntOrString:
		n.Set = true
	}
	if len(n.Keys) > 0 {
		n.KeyDefaults = b.keyDefaults(n.Keys, items)
	}
}

// keyDefaults returns the defaults of the keys. The zero value as default of a
// required field is only how the schemas of built-in kinds are written.
func (b *Builder) keyDefaults(keys []string, items map[string]any) map[string]any {
	for range 10 { // references to references
		ref, _ := reference(items)
		if ref == "" || b.Resolve == nil {
			break
		}
		items = b.Resolve(ref)
	}
	properties, _ := items["properties"].(map[string]any)
	required := texts(items["required"])
	var defaults map[string]any
	for _, key := range keys {
		property, _ := properties[key].(map[string]any)
		value, ok := property["default"]
		if !ok || value == nil || isZero(value) && slices.Contains(required, key) {
			continue
		}
		if defaults == nil {
			defaults = map[string]any{}
		}
		defaults[key] = whole(value)
	}
	return defaults
}

func isZero(value any) bool {
	return value == "" || value == float64(0) || value == int64(0)
}

// whole returns an integer that was decoded as a float64 as int64.
func whole(value any) any {
	if f, ok := value.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return value
}

// atomicity returns whether a list or map is replaced as a whole, and whether the schema itself says so: what a property says
// counts before what it refers to does, as for the claimRef of a PersistentVolume.
func atomicity(schema map[string]any) (atomic, said bool) {
	for _, extension := range []string{"x-kubernetes-list-type", "x-kubernetes-map-type"} {
		if what, ok := schema[extension].(string); ok {
			atomic, said = atomic || what == "atomic", true
		}
	}
	return atomic, said
}

// strategy says whether the patch strategy has the given part.
func strategy(schema map[string]any, part string) bool {
	all, _ := schema["x-kubernetes-patch-strategy"].(string)
	return slices.Contains(strings.Split(all, ","), part)
}

func isIntOrString(schema map[string]any) bool {
	is, _ := schema["x-kubernetes-int-or-string"].(bool)
	return is || schema["format"] == "int-or-string"
}

// isQuantity recognizes a quantity in a CRD by its pattern, the one that
// apimachinery documents and controller-gen writes.
func isQuantity(schema map[string]any) bool {
	pattern, _ := schema["pattern"].(string)
	return strings.Contains(pattern, "[KMGTPE]i") && strings.Contains(pattern, "[numkMGTPE]")
}

func texts(value any) []string {
	switch list := value.(type) {
	case []string:
		return slices.Clone(list)
	case []any:
		var out []string
		for _, item := range list {
			if text, ok := item.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}
