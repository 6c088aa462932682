package listkeys

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// at walks from a kind to one of its fields; "[]" goes into a list or map.
func at(t *testing.T, n *Node, path ...string) *Node {
	t.Helper()
	for _, name := range path {
		require.NotNil(t, n, "no schema before %s of %v", name, path)
		if name == "[]" {
			n = n.Elem
			continue
		}
		n = n.Field(name)
	}
	return n
}

func TestFor(t *testing.T) {
	pod := []string{"spec", "template", "spec"}
	inPod := func(path ...string) []string { return append(append([]string{}, pod...), path...) }
	cases := map[string]struct {
		reason string
		kind   resource.Type
		path   []string
		want   Node // without Fields and Elem
	}{
		"Containers": {
			reason: "containers are keyed by name",
			kind:   k8s.Deployment, path: inPod("containers"),
			want: Node{Kind: List, Keys: []string{"name"}, PatchKey: "name"},
		},
		"ContainerPorts": {
			reason: "the map keys come before the patch merge key, and the protocol has a default",
			kind:   k8s.Deployment, path: inPod("containers", "[]", "ports"),
			want: Node{
				Kind: List, Keys: []string{"containerPort", "protocol"}, PatchKey: "containerPort",
				KeyDefaults: map[string]any{"protocol": "TCP"}, AnyOrder: true, UniqueNames: true,
			},
		},
		"ServicePorts": {
			reason: "two ports of one number differ by protocol",
			kind:   k8s.Service, path: []string{"spec", "ports"},
			want: Node{
				Kind: List, Keys: []string{"port", "protocol"}, PatchKey: "port",
				KeyDefaults: map[string]any{"protocol": "TCP"}, AnyOrder: true, UniqueNames: true, SoleUnnamed: true,
			},
		},
		"VolumeMounts": {
			reason: "two mounts of one volume differ by path",
			kind:   k8s.Pod, path: []string{"spec", "containers", "[]", "volumeMounts"},
			want: Node{Kind: List, Keys: []string{"mountPath"}, PatchKey: "mountPath", AnyOrder: true},
		},
		"Tolerations": {
			reason: "admission appends to an atomic list",
			kind:   k8s.Pod, path: []string{"spec", "tolerations"},
			want: Node{Kind: List, Atomic: true},
		},
		"Finalizers": {
			reason: "a set",
			kind:   k8s.ConfigMap, path: []string{"metadata", "finalizers"},
			want: Node{Kind: List, Set: true},
		},
		"OwnerReferences": {
			reason: "keyed by UID",
			kind:   k8s.ConfigMap, path: []string{"metadata", "ownerReferences"},
			want: Node{Kind: List, Keys: []string{"uid"}, PatchKey: "uid", AnyOrder: true},
		},
		"Data": {
			reason: "a map",
			kind:   k8s.ConfigMap, path: []string{"data"},
			want: Node{Kind: Map},
		},
		"Selector": {
			reason: "an atomic map",
			kind:   k8s.Service, path: []string{"spec", "selector"},
			want: Node{Kind: Map, Atomic: true},
		},
		"LabelSelector": {
			reason: "an atomic struct",
			kind:   k8s.Deployment, path: []string{"spec", "selector"},
			want: Node{Kind: Struct, Atomic: true, Zeros: []string{"matchExpressions", "matchLabels"}},
		},
		"Strategy": {
			reason: "changing the type drops what belongs to the other one",
			kind:   k8s.Deployment, path: []string{"spec", "strategy"},
			want: Node{Kind: Struct, RetainKeys: true, Zeros: []string{"type"}},
		},
		"Volumes": {
			reason: "keyed, and each a union",
			kind:   k8s.Pod, path: []string{"spec", "volumes"},
			want: Node{Kind: List, Keys: []string{"name"}, PatchKey: "name", RetainKeys: true, AnyOrder: true},
		},
		"Limits": {
			reason: "quantities have several spellings",
			kind:   k8s.Pod, path: []string{"spec", "containers", "[]", "resources", "limits", "cpu"},
			want: Node{Kind: Quantity},
		},
		"TargetPort": {
			reason: "a number or a name",
			kind:   k8s.Service, path: []string{"spec", "ports", "[]", "targetPort"},
			want: Node{Kind: IntOrString},
		},
		"Replicas": {
			reason: "a scalar",
			kind:   k8s.Deployment, path: []string{"spec", "replicas"},
			want: Node{Kind: Scalar},
		},
		"Recursion": {
			reason: "schemas of CRDs are recursive",
			kind:   k8s.CustomResourceDefinition,
			path: []string{
				"spec", "versions", "[]", "schema", "openAPIV3Schema",
				"properties", "spec", "properties", "a", "properties", "b", "required",
			},
			want: Node{Kind: List, Atomic: true},
		},
		"OldVersion": {
			reason: "not only the newest version is known",
			kind:   resource.Type{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"},
			path:   []string{"spec", "maxReplicas"},
			want:   Node{Kind: Scalar},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := at(t, For(tc.kind), tc.path...)
			require.NotNil(t, n, tc.reason)
			got := *n
			got.Fields, got.Elem = nil, nil
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestForUnknown(t *testing.T) {
	require.Nil(t, For(resource.Type{APIVersion: "example.com/v1", Kind: "Pod"}))
	require.Nil(t, For(k8s.Pod).Field("spec").Field("nonsense"))
	require.Nil(t, at(t, For(k8s.ControllerRevision), "data"), "any JSON: nothing is known")
	require.Nil(t, For(k8s.ControllerRevision).Field("data").Field("anything"), "Field may be called on nil")
}

// Every built-in kind has a schema, and the table is one that can be decoded.
func TestForEveryKind(t *testing.T) {
	require.True(t, json.Valid([]byte(tableJSON)))
	for _, mapping := range k8s.Mappings() {
		n, err := read(tableJSON, mapping.Type)
		require.NoError(t, err)
		require.NotNil(t, n, mapping.Type)
		require.Equal(t, Struct, n.Kind, mapping.Type)
		require.NotNil(t, n.Field("metadata").Field("labels"), mapping.Type)
	}
}

func TestReadRefuses(t *testing.T) {
	const kind = "{\"kinds\":{\n\"v1/A\":\"a\"\n},\"schemas\":{\n"
	cases := map[string]struct{ reason, table string }{
		"NotAName":    {"a kind that is a number", "\n\"v1/A\":1\n"},
		"NotJSON":     {"a schema that is none", kind + "\"a\":{x\n}}\n"},
		"MissingRoot": {"a kind without schema", kind + "}}"},
		"MissingRef":  {"a field without schema", kind + "\"a\":{\"f\":{\"b\":\"#b\"}}\n}}"},
		"Unknown":     {"a letter that means nothing", kind + "\"a\":{\"l\":\"x\"}\n}}"},
		"NotANode":    {"a node that is a number", kind + "\"a\":{\"m\":1}\n}}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := read(tc.table, resource.Type{APIVersion: "v1", Kind: "A"})
			require.Error(t, err, tc.reason)
		})
	}
}

func TestEncodeTable(t *testing.T) {
	scalar := &Node{Kind: Scalar}
	recursive := &Node{Kind: Struct, Fields: map[string]*Node{"q": {Kind: Quantity}, "any": nil}}
	recursive.Fields["more"] = &Node{
		Kind: List, Elem: recursive, Keys: []string{"q"}, PatchKey: "q", KeyDefaults: map[string]any{"q": int64(1)},
	}
	root := &Node{Kind: Struct, RetainKeys: true, Fields: map[string]*Node{
		"tree": recursive,
		"map":  {Kind: Map, Elem: &Node{Kind: IntOrString}, Atomic: true},
		"free": {Kind: Map},
		"set":  {Kind: List, Elem: scalar, Set: true},
	}}
	kind := resource.Type{APIVersion: "v1", Kind: "A"}
	named := map[string]*Node{"root": root, "tree": recursive, "unused": {Kind: Struct}}

	data, err := EncodeTable(map[resource.Type]string{kind: "root"}, named)
	require.NoError(t, err)
	require.NotContains(t, string(data), "unused")
	again, err := EncodeTable(map[resource.Type]string{kind: "root"}, named)
	require.NoError(t, err)
	require.Equal(t, data, again)

	got, err := read(string(data), kind)
	require.NoError(t, err)
	require.Same(t, got.Fields["tree"], got.Fields["tree"].Fields["more"].Elem, "a cycle stays one")
	require.Equal(t, root, got)

	_, err = EncodeTable(map[resource.Type]string{kind: "absent"}, named)
	require.ErrorContains(t, err, "v1/A: no schema")
}

func BenchmarkFor(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if For(k8s.Deployment) == nil {
			b.Fatal("nothing")
		}
	}
}
