package merge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource/k8s"
)

// pathsOf parses paths.
func pathsOf(t *testing.T, texts ...string) []fieldpath.Path {
	t.Helper()
	var paths []fieldpath.Path
	for _, text := range texts {
		path, err := fieldpath.Parse(text)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}

func TestDisown(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, path, owned string
		rest                string // empty: nothing of it is owned
	}{
		"field": {reason: "the others stay", path: "spec.replicas", owned: `{"f:spec":{"f:replicas":{},"f:paused":{}}}`, rest: `{"f:spec":{"f:paused":{}}}`},
		"whole": {reason: "what is below goes, too", path: "spec.strategy", owned: `{"f:spec":{"f:a":{},"f:strategy":{".":{},"f:type":{}}}}`, rest: `{"f:spec":{"f:a":{}}}`},
		"item": {
			reason: "items are found by their keys", path: `spec.c[name=a].image`,
			owned: `{"f:spec":{"f:c":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}},"k:{\"name\":\"b\"}":{"f:image":{}}}}}`,
			rest:  `{"f:spec":{"f:c":{"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{"f:image":{}}}}}`,
		},
		"any item": {
			reason: "of all items", path: `spec.c[*].image`,
			owned: `{"f:spec":{"f:c":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}},"k:{\"name\":\"b\"}":{"f:image":{}}}}}`,
			rest:  `{"f:spec":{"f:c":{"k:{\"name\":\"a\"}":{}}}}`,
		},
		"not owned":  {reason: "there is nothing to change", path: "spec.replicas", owned: `{"f:spec":{"f:paused":{}}}`},
		"around it":  {reason: "a value with one owner stays owned", path: "spec.rules[0].http", owned: `{"f:spec":{"f:rules":{}}}`},
		"everything": {reason: "the entry of another manager is left", path: "spec", owned: `{"f:spec":{"f:paused":{}}}`, rest: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			other := metav1.ManagedFieldsEntry{Manager: "other", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(tc.owned)}
			status := metav1.ManagedFieldsEntry{Manager: "us", Subresource: "status", FieldsV1: metav1.NewFieldsV1(tc.owned)}
			ours := metav1.ManagedFieldsEntry{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(tc.owned)}
			got, err := Disown([]metav1.ManagedFieldsEntry{other, ours, status}, "us", pathsOf(t, tc.path))
			require.NoError(t, err)
			switch tc.rest {
			case "":
				require.Nil(t, got, tc.reason)
			case "-":
				require.Equal(t, []metav1.ManagedFieldsEntry{other, status}, got, tc.reason)
			default:
				require.Len(t, got, 3)
				require.Equal(t, other, got[0])
				require.Equal(t, status, got[2])
				text, err := json.Marshal(got[1].FieldsV1)
				require.NoError(t, err)
				require.JSONEq(t, tc.rest, string(text), tc.reason)
			}
		})
	}
}

func TestUnignored(t *testing.T) {
	deployment := listkeys.For(k8s.Deployment)
	for name, tc := range map[string]struct {
		reason, path, desired string
		want                  string
		applied               string // empty: as want
	}{
		"field":         {reason: "the others stay", path: "spec.replicas", desired: `{"spec":{"replicas":3,"paused":true}}`, want: `{"spec":{"paused":true}}`},
		"nothing left":  {reason: "nor is the object that was made for it", path: "spec.strategy.type", desired: `{"spec":{"strategy":{"type":"Recreate"}}}`, want: `{}`},
		"empty before":  {reason: "that says something", path: "spec.strategy.type", desired: `{"spec":{"strategy":{}}}`, want: `{"spec":{"strategy":{}}}`},
		"item of a key": {reason: "its key stays", path: "spec.template.spec.containers[name=a].image", desired: `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"i"}]}}}}`, want: `{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`},
		"one owner": {
			reason: "an apply sends such a list whole", path: "spec.template.spec.containers[name=a].args[0]",
			desired: `{"spec":{"template":{"spec":{"containers":[{"name":"a","args":["x","y"]}]}}}}`,
			want:    `{"spec":{"template":{"spec":{"containers":[{"name":"a","args":["y"]}]}}}}`,
			applied: `{"spec":{"template":{"spec":{"containers":[{"name":"a","args":["x","y"]}]}}}}`,
		},
		"elsewhere": {reason: "nothing is ignored", path: "data.a", desired: `{"spec":{"replicas":3}}`, want: `{"spec":{"replicas":3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := Comparison{Schema: deployment, Ignore: pathsOf(t, tc.path)}
			var desired map[string]any
			require.NoError(t, json.Unmarshal([]byte(tc.desired), &desired))
			asJSON := func(v any) string {
				text, err := json.Marshal(v)
				require.NoError(t, err)
				return string(text)
			}
			require.JSONEq(t, tc.want, asJSON(c.Unignored(desired)), tc.reason)
			if tc.applied == "" {
				tc.applied = tc.want
			}
			require.JSONEq(t, tc.applied, asJSON(c.Unapplied(desired)), tc.reason)
			require.JSONEq(t, tc.desired, asJSON(desired), "the object stays as it is")
		})
	}
}

func TestFieldSetHoldsAny(t *testing.T) {
	set := newFieldSet(map[string]any{"spec": map[string]any{"replicas": int64(3), "list": []any{map[string]any{"name": "a", "x": "y"}}}}, nil)
	require.True(t, set.HoldsAny(pathsOf(t, "spec.replicas")))
	require.True(t, set.HoldsAny(pathsOf(t, "data", "spec")), "what is below")
	require.True(t, set.HoldsAny(pathsOf(t, "spec.list[name=b].x")), "perhaps")
	require.False(t, set.HoldsAny(pathsOf(t, "spec.paused", "data.a")))
	require.False(t, (*FieldSet)(nil).HoldsAny(pathsOf(t, "spec")))
}
