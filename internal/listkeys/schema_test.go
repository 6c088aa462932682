package listkeys

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func schemaOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var schema map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &schema))
	return schema
}

func TestFromSchema(t *testing.T) {
	scalar := &Node{Kind: Scalar}
	cases := map[string]struct {
		reason string
		schema string
		want   *Node
	}{
		"Nothing":  {"an empty schema says nothing", `{"description":"any JSON"}`, nil},
		"Object":   {"what is in a bare object is unknown", `{"type":"object"}`, nil},
		"Preserve": {"unknown fields may be anything", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, nil},
		"Closed":   {"other fields are pruned", `{"type":"object","properties":{"a":{"type":"string"}}}`, &Node{Kind: Struct, Closed: true, Fields: map[string]*Node{"a": scalar}}},
		"Open":     {"other fields are kept", `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}`, &Node{Kind: Struct, Fields: map[string]*Node{"a": scalar}}},
		"Scalar":   {"a scalar", `{"type":"integer","format":"int32"}`, scalar},
		"IntOrString": {
			"as CRDs spell it", `{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`,
			&Node{Kind: IntOrString},
		},
		"Quantity": {
			"as controller-gen spells it",
			`{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true,` +
				`"pattern":"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"}`,
			&Node{Kind: Quantity},
		},
		"Map": {
			"a map of strings", `{"type":"object","additionalProperties":{"type":"string"}}`,
			&Node{Kind: Map, Elem: scalar},
		},
		"AtomicMap": {
			"a struct that is replaced whole",
			`{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}}`,
			&Node{Kind: Struct, Closed: true, Atomic: true, Fields: map[string]*Node{"a": scalar}},
		},
		"AtomicBareMap": {
			"what is in it is unknown, but not that it is atomic", `{"type":"object","x-kubernetes-map-type":"atomic"}`,
			&Node{Kind: Map, Atomic: true},
		},
		"PlainList": {
			"a list without type is compared whole", `{"type":"array","items":{"type":"string"}}`,
			&Node{Kind: List, Elem: scalar},
		},
		"AtomicList": {
			"an atomic list", `{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}}`,
			&Node{Kind: List, Elem: scalar, Atomic: true},
		},
		"Set": {
			"a set", `{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`,
			&Node{Kind: List, Elem: scalar, Set: true},
		},
		"PatchSet": {
			"a list of scalars that patches merge is a set",
			`{"type":"array","x-kubernetes-patch-strategy":"merge","items":{"type":"string"}}`,
			&Node{Kind: List, Elem: scalar, Set: true},
		},
		"MapList": {
			"keys with their defaults: an optional zero counts, a required one is an artefact",
			`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b","c","d"],"items":{"type":"object",` +
				`"required":["a"],"properties":{"a":{"type":"string","default":""},"b":{"type":"integer","default":7},` +
				`"c":{"type":"string","default":""},"d":{"type":"string"}}}}`,
			&Node{
				Kind: List, Keys: []string{"a", "b", "c", "d"}, KeyDefaults: map[string]any{"b": int64(7), "c": ""},
				Elem: &Node{Kind: Struct, Closed: true, Fields: map[string]*Node{"a": scalar, "b": scalar, "c": scalar, "d": scalar}},
			},
		},
		"PatchMergeKey": {
			"the patch merge key alone",
			`{"type":"array","x-kubernetes-patch-strategy":"merge,retainKeys","x-kubernetes-patch-merge-key":"name",` +
				`"items":{"type":"object","properties":{"name":{"type":"string"}}}}`,
			&Node{
				Kind: List, Keys: []string{"name"}, PatchKey: "name", RetainKeys: true,
				Elem: &Node{Kind: Struct, Closed: true, Fields: map[string]*Node{"name": scalar}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := FromSchema(schemaOf(t, `{"type":"object","properties":{"spec":`+tc.schema+`}}`), nil)
			require.Equal(t, tc.want, root.Field("spec"), tc.reason)
		})
	}
}

func TestFromSchemaOfCRD(t *testing.T) {
	n := FromSchema(schemaOf(t, `{"type":"object","properties":{
		"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
		"spec":{"type":"object","properties":{
			"template":{"type":"object","x-kubernetes-embedded-resource":true,
				"properties":{"metadata":{"type":"object"},"data":{"type":"string"}}},
			"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"string"}}}}}}}`), nil)

	require.True(t, n.Field("metadata").Field("finalizers").Set, "metadata is that of every object")
	require.True(t, at(t, n, "spec", "template", "metadata", "finalizers").Set, "that of embedded objects too")
	require.Equal(t, &Node{Kind: Scalar}, at(t, n, "spec", "free", "known"))
	require.Nil(t, at(t, n, "spec", "free", "unknown"))
}

func TestFromSchemaReferences(t *testing.T) {
	schemas := map[string]map[string]any{
		"Tree": schemaOf(t, `{"type":"object","properties":{
			"children":{"type":"array","items":{"$ref":"Tree"},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"]},
			"name":{"type":"string","default":"leaf"},"max":{"$ref":"io.k8s.apimachinery.pkg.api.resource.Quantity"}}}`),
		"Alias":   schemaOf(t, `{"$ref":"Tree"}`),
		"Loop":    schemaOf(t, `{"$ref":"Loop"}`),
		"Strings": schemaOf(t, `{"type":"array","items":{"type":"string"}}`),
		"Any":     schemaOf(t, `{}`),
	}
	n := FromSchema(schemaOf(t, `{"type":"object","properties":{
		"tree":{"$ref":"Tree"},"alias":{"$ref":"Alias"},"loop":{"$ref":"Loop"},"missing":{"$ref":"Missing"},"any":{"$ref":"Any"},
		"list":{"allOf":[{"$ref":"Strings"}]},
		"retain":{"allOf":[{"$ref":"Tree"}],"default":{},"x-kubernetes-patch-strategy":"retainKeys"}}}`),
		func(ref string) map[string]any { return schemas[ref] })

	tree := n.Field("tree")
	require.Same(t, tree, tree.Field("children").Elem, "a recursive schema is a cycle")
	require.Equal(t, map[string]any{"name": "leaf"}, tree.Field("children").KeyDefaults)
	require.Equal(t, &Node{Kind: Quantity}, tree.Field("max"))
	require.Same(t, tree, n.Field("alias"))
	require.Equal(t, &Node{Kind: List, Elem: &Node{Kind: Scalar}}, n.Field("list"))
	require.True(t, n.Field("retain").RetainKeys)
	require.False(t, tree.RetainKeys, "what a property adds is not the schema's")
	require.Nil(t, n.Field("missing"))
	require.Nil(t, n.Field("any"))
	require.Nil(t, n.Field("loop").Field("x"), "a reference to itself ends")
}

func TestKindString(t *testing.T) {
	for kind, want := range map[Kind]string{
		Scalar: "Scalar", Quantity: "Quantity", IntOrString: "IntOrString",
		Struct: "Struct", Map: "Map", List: "List", Kind(99): "unknown",
	} {
		require.Equal(t, want, kind.String())
	}
}
